#!/usr/bin/env bash
# Build the wheel and the sdist, check them, and try the wheel in a fresh environment and an empty folder.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
bin=$root/.venv/bin

rm -rf dist
"$bin/python" -m build --no-isolation --outdir dist . >/dev/null # the sdist, then the wheel from the sdist
"$bin/check-wheel-contents" dist/*.whl
"$bin/twine" check --strict dist/*
"$bin/pyroma" --min 9 dist/*.tar.gz

trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
"${PYTHON:-$bin/python}" -m venv --without-pip "$trial/env"
"$bin/uv" pip install --quiet --python "$trial/env/bin/python" --constraint requirements.lock dist/*.whl ||
  { "$bin/python" -m venv "$trial/env" && "$trial/env/bin/python" -m pip install --quiet --constraint requirements.lock dist/*.whl; }
mkdir "$trial/empty"
cd "$trial/empty"
export PATH="$trial/env/bin:$PATH"
unset PYTHONPATH
lppm-sim --version
lppm-sim new --list >list.txt
grep -q taxi_5min list.txt
small=(--set users.count=2 --set users.queries=10 --set replications=1)
lppm-sim new --example taxi_5min
lppm-sim run example:taxi_5min "${small[@]}" -o run >run.txt
test -s run/report.html -a -s run/summary.csv
lppm-sim run taxi_5min.yaml "${small[@]}" --no-figures -o copy >copy.txt
cmp run/summary.csv copy/summary.csv
lppm-sim list design >/dev/null
python - <<'PYTHON'
import pathlib, sim
assert (pathlib.Path(sim.__file__).parent / "py.typed").exists()
assert not sim.Result.open("run").summary().empty
PYTHON
echo "package: wheel and sdist are in dist/ and work in a fresh environment"
