# src/core
