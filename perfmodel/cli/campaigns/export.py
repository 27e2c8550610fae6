"""``perfmodel campaign export``: what starts workers on a cluster."""

from __future__ import annotations

import click


@click.group()
def export() -> None:
    """Write what starts the workers of a campaign on a cluster."""
