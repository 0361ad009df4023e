# src/provider
