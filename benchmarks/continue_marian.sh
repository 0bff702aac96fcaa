#!/usr/bin/env bash
# Trains a model on Tatoeba (en-de) in Marian itself (`pip install pymarian sentencepiece`), imports it, continues it on
# Multi30k for 15 minutes with half of every batch replayed from Tatoeba, and scores both models on the test sets of
# both corpora, a line of JSON each. A finished step is not done again.
set -euo pipefail

out=${1:?the folder to work in}
updates=${2:-6000}
data=${ALLYOUNEED_DATA:?set it to the folder that holds multi30k/ and tatoeba/}
captions=$data/multi30k
everyday=$data/tatoeba/en-de

mkdir -p "$out"
if [[ ! -e $out/vocab.spm ]]; then
    zcat "$everyday.train.tsv.gz" | cut -f1 >"$out/train.en"
    zcat "$everyday.train.tsv.gz" | cut -f2 >"$out/train.de"
    python - "$out" <<'PYTHON'
import sys

import sentencepiece

folder = sys.argv[1]
sentencepiece.SentencePieceTrainer.train(
    input=f"{folder}/train.en,{folder}/train.de", model_prefix=f"{folder}/pieces", vocab_size=4000,
    bos_id=-1, eos_id=0, unk_id=1, pad_id=-1, minloglevel=2,
)
PYTHON
    mv "$out/pieces.model" "$out/vocab.spm"
fi
if [[ ! -e $out/marian/model.npz ]]; then
    mkdir -p "$out/marian"
    pymarian train --train-sets "$out/train.en" "$out/train.de" --vocabs "$out/vocab.spm" "$out/vocab.spm" \
        --model "$out/marian/model.npz" --type transformer --cpu-threads "$(nproc)" --tied-embeddings-all \
        --dim-emb 128 --enc-depth 2 --dec-depth 2 --transformer-heads 4 --transformer-dim-ffn 512 \
        --transformer-dropout 0.1 --label-smoothing 0.1 --mini-batch 1000 --mini-batch-words 1000 --max-length 100 \
        --learn-rate 0.001 --lr-warmup 1000 --lr-decay-inv-sqrt 1000 --optimizer-params 0.9 0.98 1e-09 \
        --clip-norm 0 --exponential-smoothing --after "${updates}u" --disp-freq 100 --save-freq 4000 --seed 1 \
        2>"$out/marian.log"
    cp "$out/vocab.spm" "$out/marian/"
fi
if [[ ! -e $out/model-first ]]; then
    allyouneed import "$out/marian/model.npz" "$out/model-first" --languages en-de
fi
for corpus in tatoeba multi30k; do
    files=(--pairs "$everyday.train.tsv.gz" --valid-pairs "$everyday.dev.tsv.gz")
    if [[ $corpus == multi30k ]]; then
        files=(--source "$captions/train.en.gz" --target "$captions/train.de.gz")
        files+=(--valid-source "$captions/val.en.gz" --valid-target "$captions/val.de.gz")
    fi
    if [[ ! -e $out/$corpus ]]; then
        allyouneed prepare "$out/$corpus" --tokenizer-from "$out/model-first" "${files[@]}"
    fi
done
allyouneed train "$out/replayed" --data "$out/multi30k" --init-from "$out/model-first" --resume \
    --replay "$out/tatoeba" --replay-share 0.5 --set training.budget_seconds=900 training.learning_rate_factor=0.5 \
    training.warmup_steps=400 training.batch_tokens=4096
if [[ ! -e $out/model-replayed ]]; then
    allyouneed average "$out/replayed" --last 2 --out "$out/model-replayed"
fi

for model in first replayed; do
    for test in multi30k tatoeba; do
        files=(--pairs "$everyday.test.tsv.gz")
        if [[ $test == multi30k ]]; then
            files=(--source "$captions/test_2016_flickr.en.gz" --reference "$captions/test_2016_flickr.de.gz")
        fi
        scores=$out/$model-on-$test.json
        if [[ ! -e $scores ]]; then
            allyouneed evaluate "$out/model-$model" "${files[@]}" --beam-size 5 --target-language de --json >"$scores.part"
            mv "$scores.part" "$scores"
        fi
        echo "{\"model\": \"$model\", \"test\": \"$test\", \"scores\": $(cat "$scores")}"
    done
done
