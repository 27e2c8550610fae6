"""The register of import formats: what each reads and where its reader is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from perfmodel.errors import UnknownWordError
from perfmodel.importers.published import Imported


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportFormat:
    """One public format of measurements.

    Parameters
    ----------
    description : str
        What it holds and who publishes it, in one line.
    location : str
        ``"module:function"`` below ``perfmodel.importers``, imported on first use. The function
        takes the path of a table or of the folder that holds it.
    folder : str
        Where its tables lie in a folder of many formats; empty for right there.
    """

    name: str
    description: str
    location: str
    folder: str = ""

    def reader(self) -> Callable[[Path], Imported]:
        """Import and return the function that reads the format."""
        module, _, function = self.location.partition(":")
        found: Callable[[Path], Imported] = getattr(
            import_module(f"perfmodel.importers.{module}"), function
        )
        return found

    def read(self, path: Path) -> Imported:
        """Read a table, or those of a folder as the public repository lays it out.

        Raises
        ------
        StoreError
            Nothing of the format is there.
        """
        return self.reader()(path)

    def usual_path(self, data: Path) -> Path:
        """Return where the format lies in a folder of many formats."""
        return data / self.folder


#: Name, reader, folder and description of every format.
_ALL = (
    ("timm", "jobs.timm_results:read_timm", "timm",
     "Images/s of vision models: huggingface/pytorch-image-models results/."),
    ("lambda", "jobs.lambda_labs:read_lambda", "",
     "Training on 1 to 16 GPUs a node: lambdal/deeplearning-benchmark."),
    ("deep-learning-examples", "jobs.deep_learning_examples:read_deep_learning_examples", "",
     "Tables of the model pages of NVIDIA/DeepLearningExamples."),
    ("cnn-steps", "jobs.cnn_steps:read_cnn_steps", "wave2",
     "Steps of image classifiers on 30 accelerators and in six frameworks: a union of tables."),
    ("dlperf", "jobs.dlperf:read_dlperf", "wave2",
     "ResNet-50 and BERT-Base on a V100 in five frameworks: Oneflow-Inc/DLPerf."),
    ("detectron2", "frameworks.detectron2_zoo:read_detectron2_zoo", "wave2",
     "Detectors on eight V100 and one: facebookresearch/detectron2."),
    ("stable-diffusion", "jobs.stable_diffusion:read_stable_diffusion", "wave2",
     "Sampling steps of Stable Diffusion 1.5 on 60 cards, from reports of users."),
    ("lambda-tensorflow", "frameworks.lambda_tensorflow:read_lambda_tensorflow", "wave2",
     "Image classifiers in TensorFlow on 1 to 8 GPUs: lambdal/lambda-tensorflow-benchmark."),
    ("fastertransformer", "frameworks.fastertransformer:read_fastertransformer", "wave2",
     "BERT, ViT and Swin in frameworks, one pass: NVIDIA/FasterTransformer."),
    ("aws-neuron", "makers.aws_neuron:read_aws_neuron", "wave2",
     "Encoders on Inferentia, training on Trainium: aws-neuron/aws-neuron-sdk."),
    ("timm-releases", "jobs.timm_results:read_timm_releases", "wave2",
     "timm on an RTX 3090 in PyTorch 1.10 to 1.12, one table for all files."),
    ("mlperf", "jobs.mlperf:read_mlperf", "",
     "Training results of MLPerf: mlcommons/training_results_*."),
    ("mlperf-inference", "jobs.mlperf_inference:read_mlperf_inference", "wave2",
     "Inference by TensorRT, Offline and SingleStream: mlcommons/inference_results_*."),
    ("llm-foundry", "language_models.llm_foundry:read_llm_foundry", "",
     "MPT training on 8 to 512 GPUs: mosaicml/llm-foundry."),
    ("llm-training", "language_models.llm_training:read_llm_training", "",
     "LLM training on clusters: Megatron-LM, MaxText, tpu-recipes, ModelLink."),
    ("megatron-bridge", "language_models.megatron_bridge:read_megatron_bridge", "wave2",
     "Language models in bf16 and fp8 on 8 to 1,024 GPUs: NVIDIA-NeMo/Megatron-Bridge."),
    ("dgxc-benchmarking", "language_models.dgxc_benchmarking:read_dgxc_benchmarking", "wave2",
     "Language models on 8 to 2,304 H100: NVIDIA/dgxc-benchmarking."),
    ("nemo", "language_models.nemo_pages:read_nemo_pages", "wave2",
     "Language models in fp8 on DGX H100 and B200: NVIDIA/NeMo."),
    ("torchtitan", "language_models.torchtitan:read_torchtitan", "wave2",
     "Llamas sharded over 8 to 128 GPUs: pytorch/torchtitan."),
    ("vtrain", "language_models.vtrain:read_vtrain", "vtrain",
     "GPT iteration times per parallel plan: VIA-Research/vTrain."),
    ("sia", "jobs.sia_traces:read_sia", "sia",
     "Data-parallel steps per placement and batch size: siasosp23/artifacts."),
    ("gavel", "jobs.gavel_throughputs:read_gavel", "gavel",
     "Steps/s alone and co-located: stanford-futuredata/gavel."),
    ("neusight", "kernels.neusight:read_neusight", "",
     "Times of fp32 operators: sitar-lab/NeuSight."),
    ("aiconfigurator", "kernels.aiconfigurator:read_aiconfigurator", "",
     "Kernels and collectives of LLM serving: ai-dynamo/aiconfigurator."),
    ("vidur", "kernels.vidur:read_vidur", "",
     "Transformer operators and collectives: microsoft/vidur."),
    ("deepbench", "kernels.deepbench:read_deepbench", "wave2",
     "Products and convolutions of 2016 to 2019: baidu-research/DeepBench."),
    ("mlpredict", "kernels.mlpredict:read_mlpredict", "wave2",
     "Layers of TensorFlow 1 on cards of 2013 to 2017: CDECatapult/mlpredict."),
    ("mlx-benchmark", "kernels.mlx_benchmark:read_mlx_benchmark", "wave2",
     "Operators in fp32 on Apple's GPUs, V100 and A100: TristanBilot/mlx-benchmark."),
    ("llmcompass", "kernels.llmcompass:read_llmcompass", "wave2",
     "Operators in fp16 on an A100 and an MI210: PrincetonUniversity/LLMCompass."),
    ("profiles", "own_profiles:read_own_profiles", "profiles",
     "Own measurements of several processes: a folder of `perfmodel measure`."),
    ("trace", "trace_files:read_trace_files", "",
     "Traces of profilers, several at once; with --model whole steps as well."),
)  # fmt: skip

#: Every import format by name.
FORMATS: Mapping[str, ImportFormat] = MappingProxyType(
    {
        name: ImportFormat(name=name, location=location, folder=folder, description=description)
        for name, location, folder, description in _ALL
    }
)


def read_format(name: str, data: Path) -> Imported:
    """Read a format from a folder of many formats.

    Raises
    ------
    StoreError
        Nothing of the format is there.
    """
    found = import_format(name)
    return found.read(found.usual_path(data))


def import_format(name: str) -> ImportFormat:
    """Return an import format by its name.

    Raises
    ------
    UnknownWordError
        With the nearest names.

    Examples
    --------
    >>> import_format("vtrain").location
    'language_models.vtrain:read_vtrain'
    """
    if name not in FORMATS:
        raise UnknownWordError(name, field="import format", known=tuple(FORMATS))
    return FORMATS[name]
