"""Numbers for people: three significant digits, an SI prefix and the unit."""

from __future__ import annotations

import math

_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")
_BINARY_PREFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def with_unit(value: float | None, unit: str) -> str:
    """Format a number with an SI prefix.

    Parameters
    ----------
    value : float or None
        In the plain unit; None and what is not finite are shown as a dash.
    unit : str
        For example ``"FLOP/s"`` or ``"B"``.

    Examples
    --------
    >>> with_unit(312e12, "FLOP/s"), with_unit(85_899_345_920, "B"), with_unit(7, "B")
    ('312 TFLOP/s', '85.9 GB', '7 B')
    """
    if value is None or not math.isfinite(value):
        return "-"
    size, prefix = float(value), 0
    # 999.5 would round to "1000 k": it belongs to the next prefix already.
    while abs(size) >= 999.5 and prefix < len(_PREFIXES) - 1:
        size, prefix = size / 1000, prefix + 1
    return f"{_three_digits(size)} {_PREFIXES[prefix]}{unit}".rstrip()


def memory(size_bytes: float | None) -> str:
    """Format an amount of memory in powers of 1024, as memories are sold.

    Parameters
    ----------
    size_bytes : float or None
        Bytes.

    Examples
    --------
    >>> memory(85_899_345_920), memory(102_228_128), memory(12)
    ('80 GiB', '97.5 MiB', '12 B')
    """
    if size_bytes is None or not math.isfinite(size_bytes):
        return "-"
    size, prefix = float(size_bytes), 0
    while abs(size) >= 1023.5 and prefix < len(_BINARY_PREFIXES) - 1:
        size, prefix = size / 1024, prefix + 1
    return f"{_three_digits(size)} {_BINARY_PREFIXES[prefix]}B"


def duration(seconds: float | None) -> str:
    """Format a time in the unit that suits it.

    Parameters
    ----------
    seconds : float or None
        Seconds, >= 0.

    Examples
    --------
    >>> duration(0.1032), duration(42e-6), duration(3.5), duration(725), duration(0)
    ('103 ms', '42 us', '3.5 s', '12 min 5 s', '0 s')
    """
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if seconds == 0:
        return "0 s"
    if seconds >= 119.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= 0.9995 * scale:
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{_three_digits(seconds / 1e-9)} ns"


def count(value: float | None) -> str:
    """Format a number without a unit, with an SI prefix from a million on.

    Parameters
    ----------
    value : float or None
        A count or a rate.

    Examples
    --------
    >>> count(19840), count(25_557_032), count(3.14159)
    ('19,840', '25.6 M', '3.14')
    """
    if value is None or not math.isfinite(value):
        return "-"
    if abs(value) >= 1e6:
        return with_unit(value, "")
    return f"{value:,.0f}" if abs(value) >= 1000 else _three_digits(value)


def percent(share: float | None) -> str:
    """Format a share as a percentage.

    Parameters
    ----------
    share : float or None
        1 means all of it.

    Examples
    --------
    >>> percent(0.1234)
    '12.3 %'
    """
    return "-" if share is None or not math.isfinite(share) else f"{100 * share:.3g} %"


def _three_digits(value: float) -> str:
    if value == 0 or abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.3g}"
