"""One published training step of a language model on a cluster, and the record that it becomes.

Tables of several repositories state the same things in other words: a model, how many accelerators
it ran on and how they split it, batch, sequence, precision, and a rate. A reader of such a table
makes a :class:`ClusterRun` of each row; what follows from them is the same for all::

    data          = accelerators / (tensor pipeline context)
    micro-batches = global batch / (data micro-batch)
    step          = global batch * sequence / tokens a second

The FLOP of a token, where a table has them (rate of arithmetic over rate of tokens), tell whether
the dimensions that stand for a name are those that ran: those of the model, as tables
count them, must lie within 6 %.

Hosts are those that the accelerators are sold in: eight GPUs, four superchips of a rack, sixteen
chips of Trainium. Where a
row says nothing, the optimizer is AdamW, its state shared out over replicas (Megatron's distributed
optimizer, in all of these recipes), and the sequence is split where tensor ranks are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from perfmodel.graph.job import Job
from perfmodel.importers.published import Origin, PublishedPlacement
from perfmodel.placement.topology.topology import Node, Placement, Plan, Schedule
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.placement.transformers.transformer_shape import TransformerShape
from perfmodel.types import Compiler, Mode, Precision

_OF_A_HOST: Mapping[str, int] = MappingProxyType({"GB200": 4, "GB300": 4, "Trainium1": 16})
_GPUS_OF_A_HOST = 8
#: FLOP of a token that differ by more are those of another model.
_OTHER_MODEL = 0.06


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterRun:
    """What a row states.

    Parameters
    ----------
    model : mapping
        Fields of a job that name the model.
    name : str
        Of the model, for people.
    global_batch, micro_batch : int
        Sequences of a step; of a replica and micro-batch.
    tokens_per_s : float
        Of the whole job.
    zero_stage : int
        What replicas share out.
    checkpointing : str
        ``"none"``, ``"attention"`` or ``"full"``.
    token_flops : float or None
        FLOP that the source counts for a token, forward and backward.
    """

    model: Mapping[str, Any]
    name: str
    accelerator: str
    accelerators: int
    global_batch: int
    micro_batch: int
    sequence_length: int
    precision: Precision
    tokens_per_s: float
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    virtual_stages: int = 1
    zero_stage: int = 1
    checkpointing: str = "none"
    token_flops: float | None = None
    compiler: Compiler = Compiler.EAGER
    software: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def record(self, origin: Origin) -> PublishedPlacement:
        """Return the record.

        Raises
        ------
        ValueError
            Degrees or batches that do not divide, or a model of other dimensions.
        """
        job = self._job()
        self._check_model(job)
        tokens = self.global_batch * self.sequence_length
        return PublishedPlacement(
            job=job,
            job_type=self.name,
            batch_size=self.micro_batch,
            placement=self._placement(),
            step_time_s=tokens / self.tokens_per_s,
            origin=origin,
            settings={"offloads": "false", "source": origin.source, **self.settings},
        )

    @property
    def _data(self) -> int:
        split = self.tensor * self.pipeline * self.context
        data, rest = divmod(self.accelerators, split)
        if rest:
            raise ValueError(f"{self.accelerators} GPUs are no multiple of a split over {split}")
        return data

    def _job(self) -> Job:
        each, rest = divmod(self.global_batch, self._data * self.micro_batch)
        if rest or not each:
            raise ValueError(
                f"a batch of {self.global_batch} does not divide over {self._data} replicas and "
                f"micro-batches of {self.micro_batch}"
            )
        return Job(
            **self.model,
            mode=Mode.TRAINING,
            batch_size=self.micro_batch,
            accumulation_steps=each,
            precision=self.precision,
            optimizer="adamw",
            sequence_length=self.sequence_length,
            activation_checkpointing=self.checkpointing == "full",
            selective_checkpointing=self.checkpointing == "attention",
            compiler=self.compiler,
            software=dict(self.software),
        )

    def _check_model(self, job: Job) -> None:
        shape = transformer_shape(job)
        if shape is None:
            raise ValueError("the sizes of the model are not understood")
        if self.token_flops is None:
            return
        counted = _counted_token_flops(shape)
        if min(abs(self.token_flops / own - 1) for own in counted) > _OTHER_MODEL:
            raise ValueError(
                "the FLOP that it counts for a token are not those of the model that is named"
            )

    def _placement(self) -> Placement:
        own = min(self.accelerators, _OF_A_HOST.get(self.accelerator, _GPUS_OF_A_HOST))
        if self.accelerators % own:
            raise ValueError(f"{self.accelerators} GPUs are no whole hosts of {own}")
        ranks = self._data * self.tensor * self.context
        if ranks % self.expert:
            raise ValueError(f"{self.expert} sets of experts do not divide the {ranks} of a stage")
        chunks = self.virtual_stages if self.pipeline > 1 else 1
        plan = Plan(
            data=self._data,
            tensor=self.tensor,
            pipeline=self.pipeline,
            context=self.context,
            expert=self.expert,
            zero_stage=self.zero_stage,
            sequence_parallel=self.tensor > 1,
            schedule=Schedule.INTERLEAVED if chunks > 1 else Schedule.ONE_F_ONE_B,
            virtual_stages=chunks,
        )
        node = Node(accelerator=self.accelerator, count=own, repeat=self.accelerators // own)
        return Placement(nodes=(node,), plan=plan)


def _counted_token_flops(shape: TransformerShape) -> tuple[float, ...]:
    """Return the FLOP of a token as tables count them: scores as the whole square, or half of it.

    Some count as many heads of keys and values as of queries.
    """
    whole = shape.sample_flops / shape.sequence_length
    scores = 12.0 * shape.layers * shape.sequence_length * shape.attention_width
    fewer = 2 * shape.hidden_size * (shape.attention_width - shape.key_value_width)
    return whole, whole - scores / 2, whole + 6.0 * shape.layers * fewer
