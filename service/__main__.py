"""``python -m service``: start with settings from the environment."""

from __future__ import annotations

from service.serve import serve
from service.settings import Settings

if __name__ == "__main__":
    settings = Settings()
    serve(models=settings.models, database=settings.database)
