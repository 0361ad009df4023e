# sql
