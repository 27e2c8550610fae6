#!/bin/sh
# What several processes do to each other on a CPU of two cores: a first corpus, in some minutes.
set -e
out=${1:-profiles}
here=$(dirname "$0")
perfmodel measure collectives --ranks 2 --ranks 3 --ranks 4 --out "$out"
perfmodel measure replicas "$here/replicas.jsonl" --sharding ddp --sharding fsdp --out "$out"
perfmodel measure neighbours "$here/neighbours.jsonl" --out "$out"
perfmodel measure loaders --workers 0 --workers 1 --workers 2 --workers 4 --out "$out"
perfmodel measure loaders --kind image_jpeg --kind tokens --locality local_ssd --out "$out"
