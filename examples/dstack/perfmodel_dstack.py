"""A dstack plugin that asks the service and lets every run go on if it does not answer.

dstack's own ``rest_plugin`` refuses to apply anything while its service is down. This one stands
in its place; name it in ``server/config.yml`` and register it as an entry point:

    [project.entry-points."dstack.plugins"]
    perfmodel = "perfmodel_dstack:PerfModelPlugin"
"""

from __future__ import annotations

from dstack._internal.core.errors import ServerClientError
from dstack.plugins import ApplyPolicy, Plugin, RunSpec, get_plugin_logger
from dstack.plugins.builtin.rest_plugin import CustomApplyPolicy

logger = get_plugin_logger(__name__)


class FailOpenPolicy(ApplyPolicy):
    """Asks about runs only; fleets, volumes and gateways are none of the service's business."""

    def __init__(self) -> None:
        self._rest = CustomApplyPolicy()

    def on_run_apply(self, user: str, project: str, spec: RunSpec) -> RunSpec:
        """Return what the service makes of a run, or the run as it is."""
        try:
            return self._rest.on_run_apply(user, project, spec)
        except (ServerClientError, ValueError) as problem:
            logger.warning("The run goes on without predictions: %s", problem)
            return spec


class PerfModelPlugin(Plugin):
    """The plugin."""

    def get_apply_policies(self) -> list[ApplyPolicy]:
        """Return the one policy."""
        return [FailOpenPolicy()]
