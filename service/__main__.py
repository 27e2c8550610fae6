"""``python -m service``: start with settings from the environment."""

from __future__ import annotations

from service.serve import serve
from service.settings import read_settings

if __name__ == "__main__":
    settings = read_settings()
    serve(
        host=settings.listen_host,
        port=settings.listen_port,
        workers=settings.workers,
        models=settings.models,
        database=settings.database,
    )
