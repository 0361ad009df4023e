"""What a user would pick: FastAPI + asyncpg. One SELECT with the token, one of the run, answered as a model."""

import datetime
import os
import random

import asyncpg
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()
pool = None


class Run(BaseModel):
    id: str
    owner: str
    status: str
    attempt: int
    created_at: datetime.datetime


@app.on_event("startup")
async def connect():
    global pool
    pool = await asyncpg.create_pool(host=os.environ["BENCH_PG"], port=5444, user="postgres", database="bench", min_size=2, max_size=8)


@app.get("/pg", response_model=Run)
async def get():
    async with pool.acquire() as connection:
        row = await connection.fetchrow("SELECT id, owner, status, attempt, created_at FROM run WHERE id = $1", "run_%06d" % random.randrange(100000))
    return dict(row)
