# src/domain
