# src/executor
