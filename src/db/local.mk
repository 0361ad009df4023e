# src/db
