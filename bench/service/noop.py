"""A FastAPI route that checks its body and does nothing: what the service is measured against."""

from __future__ import annotations

import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

app = FastAPI()


class Ask(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    event_id: str | None = None
    subject: str | None = None
    exclude: list[int] | None = None
    baseline: int | None = None
    defer: bool = False


class Reply(BaseModel):
    event_id: str | None
    action: int
    propensity: float


@app.post("/decisions", status_code=201)
async def decide(ask: Ask) -> Reply:
    return Reply(event_id=ask.event_id, action=0, propensity=1.0)


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "alive"}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
