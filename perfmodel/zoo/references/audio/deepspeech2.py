"""Deep Speech 2: convolutions over a spectrogram, bidirectional recurrent layers, CTC.

References
----------
Amodei et al., "Deep Speech 2: End-to-End Speech Recognition in English and Mandarin", 2015;
sizes of the public PyTorch implementation that scheduler studies train.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.references.reference import Batch, Parts

#: Bins of a 20 ms window at 16 kHz.
_BINS = 161
_FILTERS = 32
#: Four seconds at a hop of 10 ms, and the letters said in them.
_FRAMES = 400
_LETTERS = 60

_CELLS: Mapping[str, Callable[..., nn.RNNBase]] = MappingProxyType(
    {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}
)


class RecurrentLayer(nn.Module):
    """Batch normalisation, then a bidirectional layer whose directions are summed."""

    def __init__(self, cell: str, inputs: int, width: int, *, is_normed: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(inputs) if is_normed else None
        self.layer = _CELLS[cell](inputs, width, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        """Transform (T, B, inputs) to (T, B, W)."""
        if self.norm is not None:
            x = self.norm(x.flatten(0, 1)).view(x.shape)
        both: Tensor = self.layer(x)[0]
        return both.view(*both.shape[:2], 2, -1).sum(2)


class DeepSpeech2(nn.Module):
    """From a spectrogram to the log-probability of every letter in every frame."""

    def __init__(self, cell: str, layers: int, width: int, classes: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, _FILTERS, (41, 11), stride=(2, 2), padding=(20, 5)),
            nn.BatchNorm2d(_FILTERS),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv2d(_FILTERS, _FILTERS, (21, 11), stride=(2, 1), padding=(10, 5)),
            nn.BatchNorm2d(_FILTERS),
            nn.Hardtanh(0, 20, inplace=True),
        )
        heard = _FILTERS * _halved(_halved(_BINS))
        self.layers = nn.ModuleList(
            RecurrentLayer(cell, width if layer else heard, width, is_normed=layer > 0)
            for layer in range(layers)
        )
        self.norm = nn.BatchNorm1d(width)
        self.output = nn.Linear(width, classes, bias=False)

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Score letters: (B, 1, 161, F) to (F / 2, B, classes)."""
        x = self.convolutions(spectrogram).flatten(1, 2).permute(2, 0, 1).contiguous()
        for layer in self.layers:
            x = layer(x)
        scores: Tensor = self.output(self.norm(x.flatten(0, 1)))
        return functional.log_softmax(scores.view(*x.shape[:2], -1), dim=-1)


@dataclass(frozen=True)
class AlignmentLoss:
    """Connectionist temporal classification over clips of equal length.

    Parameters
    ----------
    target : torch.Tensor
        Letters, (B, letters), int64, none of them 0, which is the blank.
    """

    target: torch.Tensor

    def __call__(self, output: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of a letter, from log-probabilities (T, B, classes)."""
        steps, batch, _ = output.shape
        letters = self.target.shape[1]
        lengths = ((steps,) * batch, (letters,) * batch)
        # Lengths as numbers and the sum: the mean would make a tensor of them on the host.
        total = torch.ctc_loss(output.float(), self.target, *lengths, blank=0, reduction=2)
        return total / self.target.numel()


def _halved(extent: int) -> int:
    return (extent + 1) // 2


def deepspeech2(
    batch: Batch,
    num_layers: int = 5,
    hidden_size: int = 800,
    cell: str = "gru",
    num_classes: int = 29,
    num_frames: int = _FRAMES,
    num_letters: int = _LETTERS,
) -> Parts:
    """Build Deep Speech 2 with five bidirectional GRUs of 800 for clips of four seconds.

    ``cell`` is gru, lstm or rnn; five LSTMs of 1024 are the larger model in use.
    """
    if cell not in _CELLS:
        raise ValueError(f"cell must be one of {', '.join(_CELLS)}")
    return Parts(
        module=DeepSpeech2(cell, num_layers, hidden_size, num_classes),
        args=(torch.randn(batch.size, 1, _BINS, num_frames),),
        loss=AlignmentLoss(torch.randint(1, num_classes, (batch.size, num_letters))),
    )
