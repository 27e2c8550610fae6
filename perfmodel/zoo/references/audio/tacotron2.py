"""Tacotron 2: characters to a mel spectrogram, one frame after the other.

The decoder is sequential even in training: each frame's attention starts from the alignment of
the frame before. Its step is some twenty small operators, so that a clip of many hundred frames
is bound by their launches rather than by their arithmetic. The graph has some 170 nodes for each
frame.

Left out: synthesis, where each frame is fed back (both modes read the true frames); the padding
of a batch to its longest clip, up to half as long again as the average of LJSpeech (give
``num_frames``); the clipping of gradients.

References
----------
Shen et al., "Natural TTS Synthesis by Conditioning WaveNet on Mel Spectrogram Predictions", 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfmodel.zoo.references.reference import Batch, Parts

_MELS = 80
#: Widths of the published model.
_EMBEDDED = 512
_PRENET = 256
_RECURRENT = 1024
_ATTENTION = 128
_LOCATION_FILTERS = 32
_LOCATION_KERNEL = 31
_KERNEL = 5

#: An average clip of LJSpeech: 6.6 s at a hop of 256 samples.
_CHARACTERS = 100
_FRAMES = 565


class NormedConvolution(nn.Module):
    """Convolution over time, batch normalisation, activation, dropout."""

    def __init__(self, inputs: int, outputs: int, activation: nn.Module) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(inputs, outputs, _KERNEL, padding=_KERNEL // 2)
        self.norm = nn.BatchNorm1d(outputs)
        self.activation = activation
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Transform (B, inputs, T) to (B, outputs, T)."""
        result: Tensor = self.dropout(self.activation(self.norm(self.convolution(x))))
        return result


class Encoder(nn.Module):
    """Three convolutions and a bidirectional LSTM over the characters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            *(NormedConvolution(width, width, nn.ReLU()) for _ in range(3))
        )
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, embedded: Tensor) -> Tensor:
        """Read characters: (B, S, W) to (B, S, W)."""
        memory: Tensor
        memory, _ = self.lstm(self.convolutions(embedded.transpose(1, 2)).transpose(1, 2))
        return memory


class Prenet(nn.Module):
    """Two linear layers with dropout that is on in inference too."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            (nn.Linear(_MELS, width, bias=False), nn.Linear(width, width, bias=False))
        )

    def forward(self, frames: Tensor) -> Tensor:
        """Transform frames (T, B, 80) to (T, B, W)."""
        x = frames
        for layer in self.layers:
            x = functional.dropout(torch.relu(layer(x)), 0.5, training=True)
        return x


class LocationAttention(nn.Module):
    r"""Additive attention that also looks at where it has been.

    :math:`e_s = v \\cdot \\tanh(W q + U k_s + L (f * a)_s)` with a the last and the summed
    alignments.
    """

    def __init__(self, width: int, queries: int) -> None:
        super().__init__()
        self.query = nn.Linear(queries, _ATTENTION, bias=False)
        self.key = nn.Linear(width, _ATTENTION, bias=False)
        self.score = nn.Linear(_ATTENTION, 1, bias=False)
        self.location = nn.Conv1d(
            2, _LOCATION_FILTERS, _LOCATION_KERNEL, padding=_LOCATION_KERNEL // 2, bias=False
        )
        self.place = nn.Linear(_LOCATION_FILTERS, _ATTENTION, bias=False)

    def forward(
        self, query: Tensor, memory: Tensor, keys: Tensor, seen: Tensor, padding: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return what was read (B, W) and the alignment (B, S).

        Parameters
        ----------
        query, memory, keys : Tensor
            (B, queries), (B, S, W), and ``self.key(memory)`` (B, S, 128).
        seen : Tensor
            Last and summed alignments (B, 2, S).
        padding : Tensor
            Where the text has ended, (B, S) bool.
        """
        place = self.place(self.location(seen).transpose(1, 2))
        wanted = self.query(query).unsqueeze(1)
        score = self.score(torch.tanh(wanted + place + keys)).squeeze(2)
        alignment = functional.softmax(score.masked_fill(padding, -torch.inf), dim=1)
        return torch.bmm(alignment.unsqueeze(1), memory).squeeze(1), alignment


class State(NamedTuple):
    """What one frame of the decoder hands to the next: all (B, width)."""

    attention: tuple[Tensor, Tensor]
    decoder: tuple[Tensor, Tensor]
    context: Tensor
    alignment: Tensor
    summed: Tensor


class Decoder(nn.Module):
    """Two LSTM cells with attention between them, frame by frame."""

    def __init__(self, width: int, recurrent: int) -> None:
        super().__init__()
        self.recurrent = recurrent
        self.prenet = Prenet(_PRENET)
        self.attention_cell = nn.LSTMCell(_PRENET + width, recurrent)
        self.attention = LocationAttention(width, recurrent)
        self.decoder_cell = nn.LSTMCell(recurrent + width, recurrent)
        self.frame = nn.Linear(recurrent + width, _MELS)
        self.stop = nn.Linear(recurrent + width, 1)
        self.dropout = nn.Dropout(0.1)

    def forward(self, memory: Tensor, frames: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """Predict every frame from those before it.

        Parameters
        ----------
        memory : Tensor
            (B, S, W).
        frames : Tensor
            The true ones, (B, 80, T).
        padding : Tensor
            (B, S) bool.

        Returns
        -------
        tuple of Tensor
            Frames (B, 80, T) and scores of the end (B, T).
        """
        shifted = functional.pad(frames.permute(2, 0, 1), (0, 0, 0, 0, 1, 0))
        inputs = self.prenet(shifted)
        keys = self.attention.key(memory)
        state = self._start(memory)
        made: list[Tensor] = []
        stops: list[Tensor] = []
        for before in inputs[:-1].unbind(0):
            state = self._advance(before, state, memory, keys, padding)
            known = torch.cat((state.decoder[0], state.context), dim=1)
            made.append(self.frame(known))
            stops.append(self.stop(known))
        return torch.stack(made, dim=2), torch.cat(stops, dim=1)

    def _advance(
        self, before: Tensor, state: State, memory: Tensor, keys: Tensor, padding: Tensor
    ) -> State:
        hidden, cell = self.attention_cell(
            torch.cat((before, state.context), dim=1), state.attention
        )
        hidden = self.dropout(hidden)
        seen = torch.stack((state.alignment, state.summed), dim=1)
        context, alignment = self.attention(hidden, memory, keys, seen, padding)
        output, output_cell = self.decoder_cell(torch.cat((hidden, context), dim=1), state.decoder)
        return State(
            (hidden, cell),
            (self.dropout(output), output_cell),
            context,
            alignment,
            state.summed + alignment,
        )

    def _start(self, memory: Tensor) -> State:
        batch, length, width = memory.shape
        hidden = memory.new_zeros(batch, self.recurrent)
        weights = memory.new_zeros(batch, length)
        context = memory.new_zeros(batch, width)
        return State((hidden, hidden), (hidden, hidden), context, weights, weights)


class Tacotron2(nn.Module):
    """Encoder, decoder and the convolutions that correct its spectrogram."""

    def __init__(self, symbols: int, width: int, recurrent: int) -> None:
        super().__init__()
        self.symbols = nn.Embedding(symbols, width)
        self.encoder = Encoder(width)
        self.decoder = Decoder(width, recurrent)
        widths = (_MELS, width, width, width, width, _MELS)
        activations = (nn.Tanh(), nn.Tanh(), nn.Tanh(), nn.Tanh(), nn.Identity())
        self.postnet = nn.Sequential(
            *(
                NormedConvolution(inputs, outputs, activation)
                for inputs, outputs, activation in zip(
                    widths[:-1], widths[1:], activations, strict=True
                )
            )
        )

    def forward(
        self, symbol_ids: Tensor, frames: Tensor, padding: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Predict frames from symbols (B, S) int64 and the true frames (B, 80, T).

        Returns
        -------
        tuple of Tensor
            Frames and corrected frames (B, 80, T), scores of the end (B, T).
        """
        memory = self.encoder(self.symbols(symbol_ids))
        made, stops = self.decoder(memory, frames, padding)
        return made, made + self.postnet(made), stops


@dataclass(frozen=True)
class SpectrogramLoss:
    """Squared errors of frames and corrected frames, and cross-entropy of the end.

    Parameters
    ----------
    frames : torch.Tensor
        True frames, (B, 80, T).
    stops : torch.Tensor
        1 from the last frame on, (B, T), float.
    """

    frames: torch.Tensor
    stops: torch.Tensor

    def __call__(self, output: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Return the sum of the three, a scalar."""
        made, corrected, stops = output
        errors = functional.mse_loss(made, self.frames.to(made.dtype))
        errors = errors + functional.mse_loss(corrected, self.frames.to(corrected.dtype))
        return errors + functional.binary_cross_entropy_with_logits(
            stops, self.stops.to(stops.dtype)
        )


def tacotron2(
    batch: Batch,
    num_symbols: int = 148,
    num_characters: int = _CHARACTERS,
    num_frames: int = _FRAMES,
    embedding_size: int = _EMBEDDED,
    hidden_size: int = _RECURRENT,
) -> Parts:
    """Build Tacotron 2 with teacher forcing for clips of average length."""
    frames = torch.randn(batch.size, _MELS, num_frames)
    return Parts(
        module=Tacotron2(num_symbols, embedding_size, hidden_size),
        args=(
            torch.randint(num_symbols, (batch.size, num_characters)),
            frames,
            torch.zeros(batch.size, num_characters, dtype=torch.bool),
        ),
        loss=SpectrogramLoss(frames, torch.zeros(batch.size, num_frames)),
    )
