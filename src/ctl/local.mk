# src/ctl
