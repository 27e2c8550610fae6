"""``perfmodel serve``: answer over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import click

from perfmodel.cli.options import FILE, FiniteRange, debug_option, models_store_option
from perfmodel.cli.running.settings_file import settings_in_force, settings_option
from perfmodel.errors import MissingExtraError

#: What ``--example`` asks.
EXAMPLE = {
    "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    "placement": "8xA100-SXM4-80GB",
}


@click.command()
@settings_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="PERFMODEL_LISTEN_HOST",
    help="Address to listen on. [environment: PERFMODEL_LISTEN_HOST]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    envvar="PERFMODEL_LISTEN_PORT",
    help="Port to listen on; 0 takes a free one. [environment: PERFMODEL_LISTEN_PORT]",
)
@click.option(
    "--database",
    default="sqlite:///perfmodel.db",
    show_default=True,
    envvar="PERFMODEL_DATABASE",
    help="SQLAlchemy URL, or the file of an SQLite database.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    envvar="PERFMODEL_WORKERS",
    help="Processes that answer. [environment: PERFMODEL_WORKERS]",
)
@click.option(
    "--keys",
    type=FILE,
    envvar="PERFMODEL_KEYS",
    help="File of the keys. [default: keys.json beside the database; environment: PERFMODEL_KEYS]",
)
@click.option(
    "--observations-keep-s",
    type=FiniteRange(0),
    envvar="PERFMODEL_OBSERVATIONS_KEEP_S",
    help="Seconds after which an observation counts no longer and is removed. [default: never; "
    "environment: PERFMODEL_OBSERVATIONS_KEEP_S]",
)
@click.option(
    "--insecure", is_flag=True, help="Listen beyond the loopback without any key; on your own risk."
)
@click.option(
    "--print-settings",
    is_flag=True,
    help="Print what environment and files state of every setting, in the form of a file, and end.",
)
@click.option("--example", is_flag=True, help="Ask one question when ready and print its answer.")
@models_store_option
@debug_option
def command(
    host: str,
    port: int,
    database: str,
    workers: int,
    keys: Path | None,
    observations_keep_s: float | None,
    insecure: bool,
    print_settings: bool,
    example: bool,
    models: str,
) -> None:
    """Answer over HTTP until Ctrl-C.

    The routes are described in docs/http.md and, once it runs, at /docs. Without keys it answers
    the loopback only; `perfmodel keys create` makes one, docs/access.md says more.
    """
    if example and workers > 1:
        raise click.UsageError("--example goes with one worker; leave --workers out.")
    try:
        from service.http.connections import check_free
        from service.serve import serve
    except ModuleNotFoundError as error:
        raise MissingExtraError("Answering over HTTP", extra="serve") from error
    if print_settings:
        click.echo(settings_in_force())
        return
    check_free(host, port, hint="Give another --port.", host_hint="Give another --host.")
    if "://" not in database:
        database = f"sqlite:///{database}"
    on_ready: Callable[[str], None] = _ask_example if example else _announce
    try:
        serve(
            host=host,
            port=port,
            models=models,
            database=database,
            workers=workers,
            keys=keys,
            observations_keep_s=observations_keep_s,
            insecure=insecure,
            on_ready=on_ready,
        )
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)


def _announce(url: str) -> None:
    print(f"perfmodel answers on {url}; its routes are at {url}/docs. Ctrl-C stops it.", flush=True)


def _ask_example(url: str) -> None:
    # In a thread: the server that is to answer runs in this one.
    threading.Thread(target=_print_example, args=(url,), daemon=True).start()


def _print_example(url: str) -> None:
    import json
    import urllib.request

    body = json.dumps(EXAMPLE)
    request = urllib.request.Request(
        f"{url}/v1/predict", data=body.encode(), headers={"Content-Type": "application/json"}
    )
    print(f"\ncurl -s {url}/v1/predict -H 'Content-Type: application/json' \\\n  -d '{body}'\n")
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            print(json.dumps(json.load(answer), indent=2))
    except OSError as error:  # what urllib raises; also when the server is stopped meanwhile
        print(f"The example was not answered: {error}")
    print()
    _announce(url)
