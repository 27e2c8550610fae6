// Names to choose from. Any other model of timm or the zoo may be typed as well.

export const MODELS = [
  "timm/resnet18", "timm/resnet34", "timm/resnet50", "timm/resnet101", "timm/resnet152",
  "timm/resnext50_32x4d", "timm/wide_resnet50_2", "timm/densenet121", "timm/vgg16",
  "timm/mobilenetv2_100", "timm/mobilenetv3_large_100", "timm/efficientnet_b0",
  "timm/efficientnet_b4", "timm/efficientnetv2_rw_s", "timm/regnety_032", "timm/convnext_tiny",
  "timm/convnext_base", "timm/vit_tiny_patch16_224", "timm/vit_small_patch16_224",
  "timm/vit_base_patch16_224", "timm/vit_large_patch16_224", "timm/deit_small_patch16_224",
  "timm/swin_tiny_patch4_window7_224", "timm/swin_base_patch4_window7_224",
  "timm/mixer_b16_224", "timm/inception_v3", "timm/xception41",
  "zoo/bert-base-squad", "zoo/bert-large-squad", "zoo/cyclegan", "zoo/deepspeech2", "zoo/dlrm",
  "zoo/faster-rcnn", "zoo/gnmt", "zoo/gpt2", "zoo/gpt2-decode", "zoo/gpt3", "zoo/keypoint-rcnn",
  "zoo/lstm-lm", "zoo/mask-rcnn", "zoo/megatron-gpt", "zoo/mlp", "zoo/mpt", "zoo/ncf", "zoo/opt",
  "zoo/recommender-autoencoder", "zoo/resnet18-cifar", "zoo/resnet50-v1.5", "zoo/retinanet",
  "zoo/sd15-unet", "zoo/sdxl-unet", "zoo/ssd300-resnet50", "zoo/switch", "zoo/tacotron2",
  "zoo/transformer-translation", "zoo/transformer-xl-base", "zoo/transformer-xl-large", "zoo/vgg",
  "zoo/waveglow", "zoo/yolov3",
];

/** Open models by the names that their hub gives them; others of it may be typed as well. */
export const HUB_MODELS = [
  "gpt2", "bert-base-uncased", "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-2-7b-hf",
  "mistralai/Mistral-7B-v0.1", "Qwen/Qwen2.5-7B",
];

/** What people ask first; each sets some fields of the form, the others become the usual ones. */
export const PRESETS = [
  ["Train ResNet-50", { model: "timm/resnet50", mode: "training", batch: "128", optimizer: "momentum", format: "channels_last" }],
  ["Train ViT-B/16", { model: "timm/vit_base_patch16_224", mode: "training", batch: "64", optimizer: "adamw" }],
  ["Fine-tune BERT-large", { model: "zoo/bert-large-squad", mode: "training", batch: "16", optimizer: "adamw" }],
  ["Train GPT-2 on 1,024 tokens", { model: "zoo/gpt2", mode: "training", batch: "8", sequence: "1024", optimizer: "adamw" }],
  ["Generate with GPT-2", { model: "zoo/gpt2-decode", mode: "inference", batch: "8" }],
  ["Classify images, one at a time", { model: "timm/mobilenetv3_large_100", mode: "inference", batch: "1" }],
];

export const NETWORKS = [
  "8xib-800g", "8xib-400g", "8xib-200g", "ib-400g", "ib-200g", "ib-100g", "roce-100g", "roce-25g",
  "efa-3200g", "efa-1600g", "efa-400g", "eth-100g", "eth-25g", "eth-10g",
];

/** Accelerators that a job is compared on unless others are chosen. */
export const COMPARED = [
  "T4", "L4", "A10G", "V100-SXM2-16GB", "A100-SXM4-40GB", "A100-SXM4-80GB", "L40S",
  "H100-SXM5-80GB", "H200-SXM", "MI300X",
];
