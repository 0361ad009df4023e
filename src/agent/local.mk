# src/agent
