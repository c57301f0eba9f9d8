#!/usr/bin/env python3
"""tokenizers_test.py RAPT: ids, learned merges and files, with the package tokenizers.

tokenizer_parity, built beside the command line, encodes drawn strings of all planes of Unicode, learns
from texts, and reads and writes files; the package does the same, and ids, vocabularies, merges and
files must be equal. Exits with 77 where tokenizer_parity was not built or the package is missing.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                            processors, trainers)
except ImportError as error:
    print(f"skipped: {error}; pip install -r tests/peers/requirements.txt")
    sys.exit(77)

try:
    from transformers import AutoTokenizer
except ImportError:
    AutoTokenizer = None

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.argv[1]).resolve().parents[1] / "tests" / "text" / "tokenizer_parity"
STRINGS = 100_000
# Of the kinds whose every span and text is compared, too. RAPT_PEER_STRINGS=100000 takes minutes.
FEWER_STRINGS = int(os.environ.get("RAPT_PEER_STRINGS", 2_000))
failed, compared = [], 0


def expect(equal, what):
    global compared
    compared += 1
    if not equal:
        failed.append(what)
        print(f"DIFFERS: {what}")


def run(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tokenizer_parity {' '.join(map(str, words))}: {done.stderr}")


def byte_level(vocabulary, text, special=()):
    """A tokenizer that the package learns from a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, show_progress=False, special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def drawn_character(draw):
    kind = draw.random()
    if kind < 0.5:
        return draw.choice("abcdestl   \n\t'0129.,!-<|>")
    if kind < 0.6:  # white space, digits and letters of other scripts
        return draw.choice("\u00a0\u0085\u2003\u3000\u1680\u200b\u0660\u00b2\u2167\u00e9\u00df\u0301"
                           "\u4e2d\u6587\u0e01\u0e33\u0939\u093f\uac00\u1100\ufeff\u001c\u001f")
    plane = draw.choice([0, 0, 0, 1, 1, 2, 3, 14, 15, 16])
    while True:
        code = plane * 0x10000 + draw.randrange(0x10000)
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def drawn_string(draw):
    words = ["<|endoftext|>", "'re", "'ll", "'", "  ", "\n\n", "don't", " the", "we've"]
    parts = [draw.choice(words) if draw.random() < 0.15 else drawn_character(draw)
             for _ in range(draw.randrange(24))]
    return "".join(parts)


def ids_by_rapt(folder, strings):
    given, found = folder / "strings", folder / "ids"
    with given.open("wb") as out:
        for string in strings:
            raw = string.encode()
            out.write(struct.pack("<I", len(raw)) + raw)
    run("encode", folder, given, found)
    raw, at, lists = found.read_bytes(), 0, []
    while at < len(raw):
        count, = struct.unpack_from("<I", raw, at)
        lists.append(list(struct.unpack_from(f"<{count}i", raw, at + 4)))
        at += 4 + 4 * count
    return lists


def compare_ids(folder, tokenizer, strings, name):
    tokenizer.save(str(folder / "tokenizer.json"))
    expected = [encoding.ids for encoding in tokenizer.encode_batch(strings)]
    different = [string for string, a, b in
                 zip(strings, ids_by_rapt(folder, strings), expected, strict=True) if a != b]
    for string in different[:5]:
        print(f"  {string!r}")
    expect(not different, f"{name}: ids of {len(different)} of {len(strings)} strings")


def compare_files(folder, tokenizer, name):
    """rapt's file of a tokenizer that it read, with the package's own."""
    (folder / "copy").mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    run("copy", folder, folder / "copy")
    same = (folder / "copy/tokenizer.json").read_text() == (folder / "tokenizer.json").read_text()
    expect(same, f"{name}: the file of a tokenizer that was read")
    again = Tokenizer.from_file(str(folder / "copy/tokenizer.json"))
    expect(again.to_str() == tokenizer.to_str(), f"{name}: what the package reads from rapt's file")


def byte_level_bpe(text, draw):
    strings = [drawn_string(draw) for _ in range(STRINGS)]
    learned_from = text + "\n".join(strings[:2000])
    special = ["<|endoftext|>"]
    for vocabulary in (257, 1500):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            tokenizer = byte_level(vocabulary, learned_from, special)
            compare_ids(folder, tokenizer, strings, f"BPE of {vocabulary}")
            compare_files(folder, tokenizer, f"BPE of {vocabulary}")
    with tempfile.TemporaryDirectory() as name:  # a few added tokens, one the beginning of another
        folder = Path(name)
        tokenizer = byte_level(400, learned_from)
        tokenizer.add_special_tokens(["<|endoftext|>", "<|end", AddedToken("\u4e2d", normalized=True)])
        tokenizer.add_tokens(["stl", "st", " the"])
        compare_ids(folder, tokenizer, strings[:20_000], "BPE with added tokens")
        compare_files(folder, tokenizer, "BPE with added tokens")
    with tempfile.TemporaryDirectory() as name:  # one long piece, and long runs
        tokenizer = byte_level(1500, learned_from)
        long = ["".join(draw.choice("abcdestl") for _ in range(200_000)), "a" * 100_000, " " * 9999,
                "\n" * 5001 + "a", text]
        compare_ids(Path(name), tokenizer, long, "BPE of long pieces")


def merges_as_texts(text):
    """The other form of merges, "a b"; and a file of early versions, without the model's type."""
    tokenizer = byte_level(600, text)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = json.loads(tokenizer.to_str())
        model = content["model"]
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
        del model["type"], model["byte_fallback"], model["ignore_merges"]
        (folder / "tokenizer.json").write_text(json.dumps(content))
        expect(ids_by_rapt(folder, [text]) == [tokenizer.encode(text).ids], "merges as texts")


def word_piece(words, lowercase, strip=None, template=True):
    """BERT's tokenizer with a vocabulary of single characters and of pieces of the words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = sorted({c for word in words for c in word if not c.isspace()})
    pieces = sorted({word[:n] for word in words for n in range(2, 7) if len(word) >= n})
    tokens = list(dict.fromkeys(special + letters + ["##" + c for c in letters] +
                                [p for i, p in enumerate(pieces) if i % 3] +
                                ["##" + p for i, p in enumerate(pieces) if i % 4 == 0]))
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]",
                                           max_input_chars_per_word=12))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)]) if template else processors.BertProcessing(
            ("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens(special)
    return tokenizer


MARKS = ["\U0001d16d", "\u302e", "\U0001d165", "\u302f", "\U0001d166"]  # sorted, and not removed


def texts_by_rapt(folder, strings, most):
    """[[ids, types, begins, ends, decoded text]] of each string and of its pair."""
    given, found = folder / "strings", folder / "lists"
    with given.open("wb") as out:
        for string in strings:
            raw = string.encode()
            out.write(struct.pack("<I", len(raw)) + raw)
    run("texts", folder, given, found, most)
    raw, at, lists = found.read_bytes(), 0, []
    while at < len(raw):
        count, = struct.unpack_from("<I", raw, at)
        lists.append(struct.unpack_from(f"<{count}i", raw, at + 4))
        at += 4 + 4 * count
    return [[*lists[i:i + 4], bytes(lists[i + 4]).decode(errors="replace")]
            for i in range(0, len(lists), 5)]


def byte_begins(text):
    """Where each character begins in bytes, and the end."""
    begins, at = [], 0
    for character in text:
        begins.append(at)
        at += len(character.encode())
    return begins + [at]


def expected_lists(tokenizer, encoding, texts):
    begins = [byte_begins(text) for text in texts]
    places = [(begins[s][b], begins[s][e]) if s is not None else (0, 0)
              for s, (b, e) in zip(encoding.sequence_ids, encoding.offsets, strict=True)]
    decoded = tokenizer.decode(encoding.ids, skip_special_tokens=False)
    return [tuple(encoding.ids), tuple(encoding.type_ids), tuple(b for b, _ in places),
            tuple(e for _, e in places), decoded]


def compare_texts(tokenizer, strings, most, name):
    """Ids, types, spans and decoded texts of single strings and of pairs, with the template."""
    if most:
        tokenizer.enable_truncation(most)
    pairs = list(zip([""] + strings[:-1], strings, strict=True))
    singles, doubles = tokenizer.encode_batch(strings), tokenizer.encode_batch(pairs)
    tokenizer.no_truncation()
    different = [0] * 5
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        tokenizer.save(str(folder / "tokenizer.json"))
        found = texts_by_rapt(folder, strings, most)
    for i, (string, pair) in enumerate(zip(strings, pairs, strict=True)):
        for ours, theirs, texts in ((found[2 * i], singles[i], [string]),
                                    (found[2 * i + 1], doubles[i], pair)):
            expected = expected_lists(tokenizer, theirs, texts)
            for part in range(5):
                if ours[part] != expected[part]:
                    if different[part] < 3:
                        print(f"  {part}: {texts!r}\n    {ours[part]}\n    {expected[part]}")
                    different[part] += 1
    for part, what in enumerate(("ids", "types", "begins", "ends", "decoded texts")):
        expect(not different[part], f"{name}: {what} of {different[part]} of {2 * len(strings)}")


def word_pieces(text, draw):
    strings = [drawn_string(draw) for _ in range(STRINGS)]
    marked = [draw.choice("[MASK] [SEP] [CLS] ".split()) + s for s in strings[:5000]]
    strings += ["".join(draw.choice(MARKS + ["a", "\u4e2d", " "]) for _ in range(draw.randrange(9)))
                for _ in range(2000)]
    words = text.split()[:3000] + [drawn_string(draw) for _ in range(2000)] + MARKS
    compare_texts(word_piece(words, True), strings, 0, "WordPiece, lower case")
    compare_texts(word_piece(words, True), marked + [text], 9, "WordPiece, cut")
    compare_texts(word_piece(words, False), strings[:20_000], 0, "WordPiece, letters as they are")
    compare_texts(word_piece(words, False, True, False), strings[:20_000], 0,
                  "WordPiece, without accents, BertProcessing")


def roberta(text, draw):
    """Byte-level BPE with RoBERTa's template and <mask>, which takes the blank before it."""
    strings = [drawn_string(draw).replace("<|endoftext|>", draw.choice([" <mask>", "  <mask> ", "<s>"]))
               for _ in range(20_000)]
    strings += [" " * n + end for n in range(9) for end in ("", "a", "<mask>", "\u3000<mask> ", "\n ")]
    for trim, prefix in ((True, False), (True, True), (False, False)):
        tokenizer = byte_level(1500, text, ["<s>", "</s>"])
        tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
        tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", 1), ("<s>", 0), trim_offsets=trim, add_prefix_space=prefix)
        name = f"RoBERTa, trim {trim}, prefix {prefix}"
        compare_texts(tokenizer, strings, 0, name)
        compare_texts(tokenizer, strings[:5000], 10, name + ", cut")


LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def split_by_expressions(text, draw):
    """The expressions of Llama 3 and Qwen 2, with and without ignore_merges."""
    strings = [drawn_string(draw) for _ in range(STRINGS)]
    strings += [draw.choice(["'S", "'\u017f", "'Ll", "'RE", "1234", "\r\n", " \n ", "\u00a0a", "--\n\n"]) + s
                for s in strings[:5000]]
    for name, numbers in (("Llama 3", r"\p{N}{1,3}"), ("Qwen 2", r"\p{N}")):
        for ignore in (False, True):
            tokenizer = byte_level(1500, text)
            content = json.loads(tokenizer.to_str())
            content["model"]["ignore_merges"] = ignore
            content["model"]["merges"] = content["model"]["merges"][:-400] if ignore else (
                content["model"]["merges"])  # tokens that no merge makes
            content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": LETTERS + numbers + OTHERS},
                 "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                 "use_regex": False}]}
            with tempfile.TemporaryDirectory() as folder:
                compare_ids(Path(folder), Tokenizer.from_str(json.dumps(content)), strings,
                            f"{name}, ignore_merges {ignore}")


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_fallback(text, normalizer=None, pre_tokenizer=None, strips=True, splits=True, without=()):
    """A tokenizer as that of Llama 2 or Gemma, with merges learned from the text. splits: do words stay
    apart in learning? without: bytes that have no token, since a character stands for them."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", "first", splits)
    learner.train_from_iterator(
        text.split("\n"), trainers.BpeTrainer(vocab_size=1200, show_progress=False, limit_alphabet=70))
    learned = json.loads(learner.to_str())["model"]
    tokens = ["<unk>", "<s>", "</s>"] + [b for b in BYTES if b not in without]
    tokens += sorted(learned["vocab"], key=learned["vocab"].get)
    tokens = list(dict.fromkeys(tokens + ["\u2581"] + [chr(int(b[3:5], 16)) for b in without]))
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)},
                                     [tuple(pair) for pair in learned["merges"]], unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()] +
        ([decoders.Strip(" ", 1, 0)] if strips else []))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def byte_fallbacks(text, draw):
    """Llama 2 and Mistral in both forms, and Gemma."""
    pieces = ["\u2581", "\u2581\u2581", "<0x41>", "<s>", "</s> ", " <unk>", " ", "   "]
    strings = ["".join(draw.choice(pieces) if draw.random() < 0.2 else part
                       for part in (drawn_string(draw), drawn_string(draw)))
               for _ in range(FEWER_STRINGS)]
    to_mark = normalizers.Replace(" ", "\u2581")
    prepended = normalizers.Sequence([normalizers.Prepend("\u2581"), to_mark])
    learned_from = (text + "\n".join(strings[:1000])).replace("<0x41>", "")  # no merge of a byte
    kinds = {"Llama 2": (prepended, None, True, True), "Llama 2, words joined": (prepended, None, True, False),
             "without a blank in front": (to_mark, None, False, True)}
    for scheme in ("first", "always", "never"):
        kinds[f"Metaspace {scheme}"] = (
            None, pre_tokenizers.Metaspace("\u2581", scheme, False), scheme != "never", True)
    for name, kind in kinds.items():
        few = strings if name in ("Llama 2", "Metaspace first") else strings[:FEWER_STRINGS // 5]
        compare_texts(byte_fallback(learned_from, *kind), few, 0, name)
    gemma = byte_fallback(learned_from, to_mark, pre_tokenizers.Split(" ", "merged_with_previous"),
                          False, True, ["<0x09>"])
    gemma.add_tokens([AddedToken("\u2581\u2581", normalized=False), AddedToken("\n\n", normalized=False)])
    compare_texts(gemma, strings, 0, "Gemma")
    long = ["".join(draw.choice("abcdestl") for _ in range(200_000)), "a" * 100_000, " " * 9999, text]
    for name in ("Llama 2", "Llama 2, words joined"):
        compare_texts(byte_fallback(learned_from, *kinds[name]), long, 0, name + ", long texts")


def composed(text, draw):
    """Qwen 2's own normalizer, NFC."""
    marks = ["\u0301", "\u0323", "\u0308", "\u0344", "\u0f71\u0f72", "\u1100", "\u1161", "\u11a8", "\uac00",
             "a", "e", "o", " ", "\u212b", "\u0958", "\u2adc", "\U0001d15e", "\ufb1d", "\u09c7\u09be", "\u0334"]
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    strings = [drawn_string(draw) for _ in range(FEWER_STRINGS)]
    strings += ["".join(draw.choice(marks) if draw.random() < 0.8 else draw.choice(every)
                        for _ in range(draw.randrange(12))) for _ in range(FEWER_STRINGS)]
    strings += ["".join(every[i:i + 64]) for i in range(0, len(every), 64)]
    strings += ["e" + "".join(every[i:i + 8]) for i in range(0, 0x3000, 8)]
    for trim in (False, True):
        tokenizer = byte_level(1500, text, ["<|endoftext|>"])
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim, add_prefix_space=False)
        compare_texts(tokenizer, strings if trim else strings[::5], 0, f"NFC, trim {trim}")


def transformers_open(folder, text, ids, name):
    """transformers opens a folder that rapt wrote."""
    if AutoTokenizer is None:
        print(f"{name}: not opened by transformers, which is not installed")
        return
    opened = AutoTokenizer.from_pretrained(folder)
    expect(opened.encode(text, add_special_tokens=False) == ids, f"{name}: ids of transformers")
    expect(opened.decode(ids) == text, f"{name}: decoded by transformers")


def learned(texts):
    for name, text in texts.items():
        for vocabulary in (256, 300, 1280, 6000):
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                (folder / "text").write_bytes(text.encode())
                run("learn", folder, folder / "text", vocabulary)
                found = Tokenizer.from_file(str(folder / "tokenizer.json"))
                expected = byte_level(vocabulary, text)
                same = (folder / "tokenizer.json").read_text() == expected.to_str(pretty=True)
                expect(same, f"the file learned from {name}, {vocabulary}")
                expect(found.decode(found.encode(text).ids) == text, f"round trip of {name}")
                if vocabulary == 1280:
                    transformers_open(folder, text, found.encode(text).ids, name)


def characters(text, draw):
    """Files of characters, which the package opens."""
    text += "".join(drawn_character(draw) for _ in range(5000))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text").write_bytes(text.encode())
        run("characters", folder, folder / "text")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        ids = tokenizer.encode(text).ids
        order = sorted(set(text))
        expect(ids == [order.index(c) for c in text], "characters: the package's ids of rapt's file")
        expect(tokenizer.decode(ids) == text, "characters: decoded by the package")
        expect(ids_by_rapt(folder, [text, "", text[::-1]]) == [ids, [], ids[::-1]], "characters: ids")
        transformers_open(folder, text, ids, "characters")
        compare_files(folder, tokenizer, "characters")


def main():
    if not PROGRAM.exists():
        print(f"skipped: {PROGRAM} was not built")
        sys.exit(77)
    draw = random.Random(1)
    pages = "".join(page.read_text() for page in sorted(ROOT.glob("*.md")))
    texts = {"pages": pages, "drawn strings": " ".join(drawn_string(draw) for _ in range(20_000)),
             "runs": "".join(draw.choice("a-") * draw.randrange(40) + draw.choice(" \nb")
                             for _ in range(3000)), "no text": ""}
    plays = Path(os.environ.get("RAPT_SHARED_DATA", "")) / "tinyshakespeare.txt"
    if plays.is_file():
        texts["tinyshakespeare"] = plays.read_text()
    byte_level_bpe(pages, draw)
    merges_as_texts(pages)
    word_pieces(pages, draw)
    roberta(pages, draw)
    split_by_expressions(pages, draw)
    byte_fallbacks(pages, draw)
    composed(pages, draw)
    learned(texts)
    characters(pages, draw)
    print(f"{compared - len(failed)} of {compared} comparisons agree")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
