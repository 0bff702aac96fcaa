#!/usr/bin/env bash
# One speed run (docs/speedruns.md): from raw cased Multi30k En-De to BLEU on its validation text, with time and FLOPs.
#   benchmarks/speedrun.sh OUT paper|modern SEED [OPTIONS OF train]
# The options say how long: --budget 15m, or for the track "paper" --steps 5000.
set -euo pipefail

out=${1:?the folder to work in, which must not exist} track=${2:?paper or modern} seed=${3:?a seed}
shift 3
corpus=${ALLYOUNEED_DATA:?set it to the folder that holds multi30k/train.en.gz and the others}/multi30k
files=(--source "$corpus/train.en.gz" --target "$corpus/train.de.gz" --source-language en --target-language de)
files+=(--valid-source "$corpus/val.en.gz" --valid-target "$corpus/val.de.gz" --keep-repeats)

mkdir "$out"
began=$(date +%s)
if [[ $track == paper ]]; then
    allyouneed prepare "$out/data" "${files[@]}" --preset multi30k_tiny
    allyouneed train "$out/run" --data "$out/data" --preset multi30k_tiny --set "training.seed=$seed" "$@"
    allyouneed average "$out/run" --out "$out/model"
else
    allyouneed prepare "$out/data" "${files[@]}"
    allyouneed train "$out/run" --data "$out/data" --set "training.seed=$seed" "$@"
    ln -s run "$out/model"
fi
ended=$(date +%s)
allyouneed evaluate "$out/model" --source "$corpus/val.en.gz" --reference "$corpus/val.de.gz" --beam-size 5 --json \
    >"$out/val.json"
python - "$out" "$track" "$seed" "$((ended - began))" <<'PYTHON'
import json, pathlib, sys

out, track, seed, seconds = sys.argv[1:]
events = map(json.loads, (pathlib.Path(out) / "run/log.jsonl").read_text().splitlines())
flops = [event["matmul_flops"] for event in events if event["event"] == "cost"][-1]
bleu = json.loads((pathlib.Path(out) / "val.json").read_text())["bleu_lowercased_moses"]["score"]
print(json.dumps({"track": track, "seed": int(seed), "seconds": int(seconds), "flops": flops, "bleu": bleu}))
PYTHON
