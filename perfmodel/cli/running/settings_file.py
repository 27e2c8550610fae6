"""One file of settings beside the environment, and secrets in files of their own.

What stands nearer to the process counts::

    command line  >  PERFMODEL_<NAME>  >  PERFMODEL_<NAME>_FILE  >  the file of settings  >  default

A file of settings is TOML with the names of the variables in small letters: ``rate_per_s = 5`` says
what ``PERFMODEL_RATE_PER_S=5`` does, ``database_file = "/run/secrets/url"`` what
``PERFMODEL_DATABASE_FILE`` does.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import click

from perfmodel.cli.options import FILE
from perfmodel.errors import (
    InvalidInputError,
    MissingExtraError,
    UnknownSettingError,
    nearest_names,
)

_PREFIX, _SUFFIX = "PERFMODEL_", "_FILE"
#: Names the file of settings itself.
SETTINGS_FILE = f"{_PREFIX}SETTINGS"
#: What commands take besides: the service that they ask, and where captures and sketches are kept.
_OF_COMMANDS = ("cache", "key", "url")
#: What is read without the settings of the service: by most commands, and by examples of adapters
#: and of containers.
_OF_OTHERS = (
    "settings", "data", "database", "models", "ray", "job", "timeout_s", "address", "image_target",
)  # fmt: skip
#: What Kubernetes sets for services whose names begin so (its service links).
_SERVICE_LINK = re.compile(r".*_(SERVICE_(HOST|PORT\w*)|PORT(_\d+_\w+)?)")


def _read_stated(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    if value is not None:
        read_settings_into(os.environ, value)


#: ``--settings``, which is read before any other option looks into the environment.
settings_option = click.option(
    "--settings",
    type=FILE,
    is_eager=True,
    expose_value=False,
    callback=_read_stated,
    help="TOML file of settings; the environment and options count more. [environment: "
    "PERFMODEL_SETTINGS]",
)


def read_settings_into(environment: MutableMapping[str, str], file: Path | None = None) -> None:
    """Add to an environment what a file of settings and files of secrets say.

    Variables that are there already stay as they are; an empty one states nothing.

    Parameters
    ----------
    file : Path or None
        None: the one that ``PERFMODEL_SETTINGS`` names, if any.

    Raises
    ------
    InvalidInputError
        A file cannot be read, a value has no place in a variable, or one setting is stated twice at
        the same place.
    UnknownSettingError
        The file states what is no setting; with the nearest ones.
    MissingExtraError
        The service, which knows the settings, is not installed.
    """
    if file is None and environment.get(SETTINGS_FILE):
        file = Path(environment[SETTINGS_FILE])
    secrets = {name for name in environment if _is_secret(name) and environment[name]}
    if file is None and not secrets:
        return
    known = known_settings()
    stated = {name: value for name, value in environment.items() if name in secrets}
    _read_secrets(environment, stated, known, place="the environment")
    if file is not None:
        variables = {
            variable_of(name): _text(name, value, file) for name, value in _toml(file).items()
        }
        _refuse_unknown(variables, known, place=str(file))
        plain = {name: value for name, value in variables.items() if not _is_secret(name)}
        taken = {f"{name}{_SUFFIX}" for name, value in environment.items() if value}
        secret = {name: variables[name] for name in variables.keys() - plain.keys() - taken}
        _read_secrets(plain, secret, known, place=str(file))
        environment.update(
            {name: value for name, value in plain.items() if not environment.get(name)}
        )


def unread_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable that is named like a setting and is none.

    Whoever misspells a variable is told, and nothing more: others may name theirs so.

    Examples
    --------
    >>> unread_variables({"PERFMODEL_DATABSE": "sqlite:///x.db", "PERFMODEL_PORT": "tcp://10.0.0.1"})
    ['PERFMODEL_DATABSE is no setting, and is not read. Did you mean PERFMODEL_DATABASE?']
    """
    cheap = (*_OF_COMMANDS, *_OF_OTHERS)
    odd = [name for name in environment if name.startswith(_PREFIX)]
    odd = [name for name in odd if name.removeprefix(_PREFIX).lower() not in cheap]
    if not odd:
        return []
    try:
        known = [variable_of(name) for name in sorted({*known_settings(), *cheap})]
    except MissingExtraError:
        return []
    return [_unread(name, known) for name in sorted(odd) if not _is_known(name, known)]


def _is_known(name: str, known: Collection[str]) -> bool:
    of_kubernetes = _SERVICE_LINK.fullmatch(name) is not None
    return of_kubernetes or name in known or name.removesuffix(_SUFFIX) in known


def _unread(name: str, known: Sequence[str]) -> str:
    close = nearest_names(name, known, limit=1)
    meant = f" Did you mean {close[0]}?" if close else ""
    return f"{name} is no setting, and is not read.{meant}"


def variable_of(name: str) -> str:
    """Return the variable of a setting.

    Examples
    --------
    >>> variable_of("rate_per_s")
    'PERFMODEL_RATE_PER_S'
    """
    return f"{_PREFIX}{name.upper()}"


def known_settings() -> frozenset[str]:
    """Return the names of all settings, of the service and of commands, in small letters.

    Raises
    ------
    MissingExtraError
        The service is not installed.
    """
    try:
        from service.settings import Settings
    except ModuleNotFoundError as error:
        raise MissingExtraError("A file of settings", extra="serve") from error
    return frozenset((*Settings.model_fields, *_OF_COMMANDS))


def _is_secret(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def _toml(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidInputError(
            f"The file of settings {file} cannot be read: {error.strerror}."
        ) from error
    except ValueError as error:
        raise InvalidInputError(f"The file of settings {file} is no TOML: {error}.") from error


def _text(name: str, value: Any, file: Path) -> str:
    """Return a value of TOML as a variable says it."""
    match value:
        case str():
            return value
        case bool() | list() | dict():
            return json.dumps(value, default=lambda odd: _refuse_value(name, odd, file))
        case int() | float():
            return str(int(value)) if float(value).is_integer() else repr(value)
    return _refuse_value(name, value, file)


def _refuse_value(name: str, value: Any, file: Path) -> str:
    raise InvalidInputError(
        f"{name} of {file} must be a text, a number, true, false, a list or a table; got {value}."
    )


def _refuse_unknown(variables: Collection[str], known: Collection[str], *, place: str) -> None:
    for variable in variables:
        name = variable.removeprefix(_PREFIX).lower()
        if name not in known and name.removesuffix(_SUFFIX.lower()) not in known:
            raise UnknownSettingError(name, known=known, hint=f"It stands in {place}.")


def _read_secrets(
    into: MutableMapping[str, str],
    secrets: Mapping[str, str],
    known: Collection[str],
    *,
    place: str,
) -> None:
    """Read the files that variables with ``_FILE`` name; the line end at their end is no part."""
    _refuse_unknown(secrets, known, place=place)
    for variable, path in secrets.items():
        name = variable.removesuffix(_SUFFIX)
        if into.get(name):
            raise InvalidInputError(
                f"{name} and {variable} both stand in {place}; state one of them."
            )
        try:
            into[name] = Path(path).read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise InvalidInputError(
                f"{variable} of {place} names {path}, which cannot be read: {reason}."
            ) from error


def settings_in_force() -> str:
    """Return every setting with its value here, as a file of settings states them.

    What may hold a secret is not shown, but that it is there.

    Raises
    ------
    InvalidInputError
        A value is none that its setting can have.
    """
    from service.settings import Settings, read_settings

    default, lines = Settings.model_construct(), []
    for name, value in read_settings().model_dump(mode="json").items():
        stated = json.loads(json.dumps(value))
        usual = stated == json.loads(json.dumps(getattr(default, name), default=str))
        shown = '"hidden"' if _hides(name, value) else _toml_value(stated)
        lines.append(f"{'# ' if usual or value is None else ''}{name} = {shown}")
    return "\n".join(lines)


def _hides(name: str, value: Any) -> bool:
    """Tell whether a value holds a secret, or may."""
    told = name in ("models_options", "drift_webhook") or f"{variable_of(name)}_FILE" in os.environ
    return bool(value) and (told or "@" in str(value))


def _toml_value(value: Any) -> str:
    match value:
        case None:
            return '""'
        case dict():
            rows = (f"{json.dumps(key)} = {_toml_value(each)}" for key, each in value.items())
            return f"{{{', '.join(rows)}}}"
        case list():
            return f"[{', '.join(_toml_value(each) for each in value)}]"
    return json.dumps(value)
