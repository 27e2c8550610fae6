"""Put the workloads of adaptive campaigns in order, by the trained model of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perfmodel.cli.output import tell

if TYPE_CHECKING:
    from perfmodel.campaigns.device import CampaignDevice
    from perfmodel.store.campaigns import CampaignStore
    from perfmodel.training.probes.probe_plan import ProbeChooser


class AdaptiveTurns:
    """Gives turns to the tasks that wait, for one device.

    What the installed model does not know of the device decides; without one that answers for it,
    efficiencies of kinds of work do, as in ``perfmodel probe-plan``.

    Parameters
    ----------
    models : Path
        Folder of trained models.
    """

    def __init__(self, campaigns: CampaignStore, device: CampaignDevice, models: Path) -> None:
        self._campaigns = campaigns
        self._device = device
        self._models = models
        self._chooser: ProbeChooser | None = None

    def order(self, campaign: str) -> None:
        """Put the waiting tasks of a campaign in order; where that cannot be done, say why."""
        from perfmodel.errors import MissingExtraError
        from perfmodel.training.probes.campaign_order import order_campaign

        try:
            chooser = self._chooser or self._found()
            self._chooser = chooser
            number = order_campaign(self._campaigns, campaign, self._device, chooser, progress=tell)
        except MissingExtraError as error:
            tell(f"The order stays as it was listed: {error}")
            return
        tell(f"{number} workloads are in the order in which they tell most.")

    def _found(self) -> ProbeChooser:
        from perfmodel.cli.learning.probe_plan import model_for
        from perfmodel.training.probes.device_shares import DeviceShares

        model = model_for(self._models, self._device.spec)
        if model is None or model.joint is None:
            tell("No trained model answers for this device: shares of kinds of work decide.")
            return DeviceShares()
        return model.joint
