#!/bin/sh
# Install perfmodel with some of its extras into /opt/perfmodel, and keep what a service needs of it.
#
# Bytecode is kept of what a start loads, and of nothing else: a third of the size of all, and a start
# of half the time. Debugging symbols and the tests of libraries are nobody's here.
set -eu
extras=$1
venv=/opt/perfmodel
packages=$venv/lib/python3.11/site-packages

"$venv/bin/pip" install -c constraints.txt ".[$extras]"
if "$venv/bin/pip" list | grep -i '^nvidia-'; then
  echo "NVIDIA packages were pulled in; name an index with a CPU build of torch" >&2
  exit 1
fi
"$venv/bin/pip" uninstall -y setuptools pip

find "$packages" -type d \( -name tests -o -name test \) -prune -exec rm -rf {} +
find "$packages" -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.pyx' -o -name '*.a' \
  -o -name '*.h' -o -name '*.hpp' \) -delete
# 4 MB that read and write files of matrices, which nothing here does.
rm -rf "$packages/scipy/io/_fast_matrix_market"
if [ ! -d "$packages/torch" ]; then
  # 14 MB of scipy that only libraries of learners import.
  for part in stats signal integrate interpolate ndimage odr; do rm -rf "$packages/scipy/$part"; done
fi
# Not those in *.libs: they were patched after they were linked.
find "$packages" -type f -name '*.so' -not -path '*.libs/*' -exec strip --strip-debug {} +
rm -rf "$packages/torch/include" "$packages/pyarrow/include"

find "$venv" -name __pycache__ -type d -prune -exec rm -rf {} +
cd /tmp
PERFMODEL_DATABASE=sqlite:////tmp/build.db PERFMODEL_MODELS=$venv/models \
  "$venv/bin/python" -c 'from service.serve import app_of_worker; app_of_worker()'
