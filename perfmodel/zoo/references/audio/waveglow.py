"""WaveGlow: a flow that turns noise into speech, trained in the other direction.

Twelve times, channels are mixed by an invertible matrix, and one half of them scales and shifts
the other by the output of a dilated convolution network that also reads the spectrogram.

Left out: synthesis, which runs the same networks in the opposite order; both modes run the
direction of training.

References
----------
Prenger, Valle, Catanzaro, "WaveGlow: A Flow-based Generative Network for Speech Synthesis", 2018.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.references.reference import Batch, Parts

_MELS = 80
_HOP = 256
_WINDOW = 1024
#: Neighbouring samples that become channels.
_GROUP = 8
#: After so many flows, so many channels leave the chain.
_EARLY_EVERY = 4
_EARLY_CHANNELS = 2
_KERNEL = 3
#: Deviation of the noise that training assumes.
_SIGMA = 1.0


class NormedConvolution(nn.Module):
    """Convolution over time whose weight is a direction and a length for each output."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        plain = nn.Conv1d(inputs, outputs, kernel)
        self.direction = plain.weight
        self.length = nn.Parameter(torch.ones(outputs, 1, 1))
        self.bias = plain.bias
        self.padding = dilation * (kernel - 1) // 2
        self.dilation = dilation

    def forward(self, x: Tensor) -> Tensor:
        """Convolve (B, inputs, T) to (B, outputs, T)."""
        weight, _ = torch._weight_norm_interface(self.direction, self.length)
        return functional.conv1d(x, weight, self.bias, padding=self.padding, dilation=self.dilation)


class GatedNetwork(nn.Module):
    """Dilated convolutions with gates, conditioned on the spectrogram."""

    def __init__(self, audio: int, layers: int, width: int) -> None:
        super().__init__()
        self.start = NormedConvolution(audio, width, 1)
        self.gates = nn.ModuleList(
            NormedConvolution(width, 2 * width, _KERNEL, 2**layer) for layer in range(layers)
        )
        self.conditions = nn.ModuleList(
            NormedConvolution(_MELS * _GROUP, 2 * width, 1) for _ in range(layers)
        )
        self.mixes = nn.ModuleList(
            NormedConvolution(width, 2 * width if layer < layers - 1 else width, 1)
            for layer in range(layers)
        )
        self.end = nn.Conv1d(width, 2 * audio, 1)
        nn.init.zeros_(self.end.weight)  # each flow starts as the identity

    def forward(self, audio: Tensor, spectrogram: Tensor) -> Tensor:
        """Propose shift and log-scale: (B, C, T) and (B, 640, T) to (B, 2 C, T)."""
        x = self.start(audio)
        collected: Tensor | None = None
        for gate, condition, mix in zip(self.gates, self.conditions, self.mixes, strict=True):
            content, opening = (gate(x) + condition(spectrogram)).chunk(2, dim=1)
            mixed = mix(torch.tanh(content) * torch.sigmoid(opening))
            if mixed.shape[1] > x.shape[1]:
                passed, mixed = mixed.chunk(2, dim=1)
                x = x + passed
            collected = mixed if collected is None else collected + mixed
        result: Tensor = self.end(collected)
        return result


class Flow(nn.Module):
    """One invertible step: mix the channels, then change one half by the other."""

    def __init__(self, channels: int, layers: int, width: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.eye(channels))
        self.network = GatedNetwork(channels // 2, layers, width)

    def forward(self, audio: Tensor, spectrogram: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the new audio (B, C, T), the log-scale (B, C / 2, T) and a log-determinant."""
        steps = audio.shape[0] * audio.shape[2]
        determinant = steps * torch.logdet(self.mix.float())
        audio = functional.conv1d(audio, self.mix.unsqueeze(2))
        kept, changed = audio.chunk(2, dim=1)
        shift, log_scale = self.network(kept, spectrogram).chunk(2, dim=1)
        return torch.cat((kept, log_scale.exp() * changed + shift), 1), log_scale, determinant


class WaveGlow(nn.Module):
    """All flows, and the layer that stretches the spectrogram to the rate of the audio."""

    def __init__(self, flows: int, layers: int, width: int) -> None:
        super().__init__()
        self.stretch = nn.ConvTranspose1d(_MELS, _MELS, _WINDOW, stride=_HOP)
        remaining = [_GROUP - _EARLY_CHANNELS * (k // _EARLY_EVERY) for k in range(flows)]
        if remaining[-1] < 2:
            raise ValueError(f"{flows} flows leave no channel; use 16 at most")
        self.flows = nn.ModuleList(Flow(channels, layers, width) for channels in remaining)

    def forward(self, audio: Tensor, mels: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Turn audio (B, N) with its spectrogram (B, 80, N / 256) into noise.

        Returns
        -------
        tuple
            Noise (B, 8, N / 8), and the log-scales and log-determinants of every flow.
        """
        spectrogram = self._grouped(self.stretch(mels)[:, :, : audio.shape[1]])
        x = audio.unfold(1, _GROUP, _GROUP).permute(0, 2, 1)
        left: list[Tensor] = []
        log_scales: list[Tensor] = []
        determinants: list[Tensor] = []
        for number, flow in enumerate(self.flows):
            if number and number % _EARLY_EVERY == 0:
                left.append(x[:, :_EARLY_CHANNELS])
                x = x[:, _EARLY_CHANNELS:]
            x, log_scale, determinant = flow(x, spectrogram)
            log_scales.append(log_scale)
            determinants.append(determinant)
        return torch.cat((*left, x), dim=1), log_scales, determinants

    def _grouped(self, spectrogram: Tensor) -> Tensor:
        groups = spectrogram.unfold(2, _GROUP, _GROUP).permute(0, 2, 1, 3)
        return groups.contiguous().flatten(2).permute(0, 2, 1)


@dataclass(frozen=True)
class FlowLoss:
    r"""Negative log-likelihood of noise that a flow made.

    :math:`(\\sum z^2 / 2 \\sigma^2 - \\sum \\log s - \\sum \\log |\\det W|) / |z|`
    """

    def __call__(self, output: tuple[Tensor, list[Tensor], list[Tensor]]) -> Tensor:
        """Return the loss, a scalar."""
        noise, log_scales, determinants = output
        log_scale = torch.stack([scale.sum() for scale in log_scales]).sum()
        spread = (noise * noise).sum() / (2 * _SIGMA**2)
        return (spread - log_scale - torch.stack(determinants).sum()) / noise.numel()


def waveglow(
    batch: Batch,
    num_flows: int = 12,
    num_layers: int = 8,
    num_channels: int = 512,
    segment_length: int = 8000,
) -> Parts:
    """Build WaveGlow for segments of 8,000 audio samples and their spectrograms.

    With ``num_channels`` 256 it is the smaller model that is also in use.
    """
    if segment_length % _GROUP:
        raise ValueError(f"segment_length must be a multiple of {_GROUP}")
    frames = segment_length // _HOP + 1
    return Parts(
        module=WaveGlow(num_flows, num_layers, num_channels),
        args=(
            torch.rand(batch.size, segment_length) * 2 - 1,
            torch.randn(batch.size, _MELS, frames),
        ),
        loss=FlowLoss(),
    )
