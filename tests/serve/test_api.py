"""Every endpoint, against what the package gives without a server."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import __version__
from regard.inspect.heads import head_figures
from regard.pipelines.model_translator import ModelTranslator
from regard.serve.trace_cache import TraceCache
from regard.tokenizers.special_ids import EOS
from regard.train.probes import ProbeHistory, encode, take_snapshot

TEXT = "apple baby bird blue"
OFF = {"kind": "attention", "where": "decoder.0.cross"}


def trace_of(client: Any, **body: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    reply = client.post("/api/trace", {"text": TEXT, **body})
    assert reply.status == 200, reply.body
    assert reply.headers["content-type"] == "application/octet-stream"
    return reply.arrays()


def test_models(client: Any, reverse: ModelTranslator) -> None:
    reply = client.get("/api/models")
    assert reply.status == 200
    first, second = reply.json["models"]
    assert (first["id"], second["id"], second["name"]) == ("0", "1", "deep")
    assert (first["src_lang"], first["tgt_lang"]) == ("en", "reversed")
    assert first["parameters"] == sum(parameter.numel() for parameter in reverse.model.parameters())
    assert first["config"]["n_heads"] == 4
    assert second["config"]["norm_order"] == "pre"
    assert first["decode"]["beam"] == 4
    assert (first["vocabulary"], first["tokenizer"], first["joint"]) == (reverse.tokenizer.tgt.size, "bpe", True)
    assert second["card"] == "# Deep\n"
    assert (first["embedding_scale"], first["score_scale"], first["head_size"]) == (8.0, 0.25, 16)
    assert first["tokenizer_hash"] == second["tokenizer_hash"]
    assert reply.json["limits"] == {"characters": 2000, "pieces": 512, "beam": 16, "n_best": 16}
    assert reply.json["version"] == __version__


def test_a_parameter(client: Any, reverse: ModelTranslator) -> None:
    name = "decoder.0.cross.qkv.weight"
    _, arrays = client.get(f"/api/models/0/parameter?name={name}").arrays()
    np.testing.assert_array_equal(arrays[name], reverse.model.get_parameter(name).numpy())
    _, arrays = client.get("/api/models/0/parameter?name=src_embedding.weight&rows=17,4,17").arrays()
    expected = reverse.model.get_parameter("src_embedding.weight").numpy()[[17, 4, 17]]
    np.testing.assert_array_equal(arrays["src_embedding.weight"], expected)
    name = "decoder.0.cross.out.weight"
    _, arrays = client.get(f"/api/models/0/parameter?columns=16-32&name={name}").arrays()
    np.testing.assert_array_equal(arrays[name], reverse.model.get_parameter(name).numpy()[:, 16:32])


def test_tokens(client: Any, reverse: ModelTranslator) -> None:
    found = client.post("/api/tokens", {"model": "0", "text": "apple 龘", "side": "src"}).json
    assert [[piece["id"] for piece in found["pieces"]]] == reverse.tokenizer.encode_src(["apple 龘"])
    assert [piece["kind"] for piece in found["pieces"]][-3:] == ["byte"] * 3
    assert found["normalised"] == "apple 龘"
    assert found["merges"][-1]["symbols"]


def test_translate(client: Any, reverse: ModelTranslator) -> None:
    found = client.post("/api/translate", {"model": "0", "text": TEXT, "n_best": 3}).json
    expected = reverse.translate([TEXT], n_best=3)[0].alternatives
    assert [one["text"] for one in found["alternatives"]] == [one.text for one in expected]
    assert found["alternatives"][0]["text"] == "blue bird baby apple"
    assert found["source"] == TEXT
    assert [piece["piece"] for piece in found["src"]] == ["▁apple", "▁baby", "▁bird", "▁blue"]
    for one, other in zip(found["alternatives"], expected, strict=True):
        assert one["score"] == pytest.approx(other.score, abs=1e-5)
        assert one["log_prob"] == pytest.approx(sum(token["log_prob"] for token in one["tokens"]), abs=1e-4)
        assert [token["piece"] for token in one["tokens"]] == [*other.tokens, "</s>"]
        assert one["finished"]


def test_translate_with_options(client: Any, reverse: ModelTranslator) -> None:
    options = {"method": "sample", "temperature": 3.0, "top_k": 5, "seed": 7}
    found = client.post("/api/translate", {"text": TEXT, "options": options, "n_best": 2}).json
    expected = reverse.translate([TEXT], n_best=2, **options)[0]
    assert [one["text"] for one in found["alternatives"]] == [one.text for one in expected.alternatives]


@pytest.mark.parametrize("beam", [1, 2])
def test_asking_for_more_translations_does_not_widen_the_search(
    client: Any, reverse: ModelTranslator, beam: int
) -> None:
    asked = {"text": TEXT, "options": {"beam": beam}, "n_best": 4}
    found = client.post("/api/translate", asked).json["alternatives"]
    expected = reverse.translate([TEXT], n_best=beam, beam=beam)[0].alternatives
    assert [one["text"] for one in found] == [one.text for one in expected]
    assert client.post("/api/beam", asked).json["beam"] == beam


def test_translate_from_a_forced_beginning(client: Any, reverse: ModelTranslator) -> None:
    [ids] = reverse.tokenizer.encode_tgt(["cat"])
    found = client.post("/api/translate", {"text": TEXT, "prefix_ids": ids}).json
    assert [token["id"] for token in found["alternatives"][0]["tokens"]][: len(ids)] == ids
    assert found["alternatives"][0]["text"] == reverse.translate([TEXT], prefix="cat")[0].text
    absent = client.post("/api/translate", {"text": TEXT, "prefix_ids": None}).json
    assert absent["alternatives"][0]["text"] == reverse(TEXT)


def test_an_empty_text_has_an_empty_translation(client: Any) -> None:
    found = client.post("/api/translate", {"text": " \n"}).json
    assert (found["src"], found["alternatives"][0]["tokens"]) == ([], [])
    header, _ = client.post("/api/trace", {"text": ""}).arrays()
    assert [token["piece"] for token in header["tgt"]] == ["</s>"]


def test_an_intervention_changes_the_translation_and_only_once(client: Any, reverse: ModelTranslator) -> None:
    changed = client.post("/api/translate", {"text": TEXT, "interventions": [OFF]}).json
    assert changed["alternatives"][0]["text"] != reverse(TEXT)
    again = client.post("/api/translate", {"text": TEXT}).json
    assert again["alternatives"][0]["text"] == reverse(TEXT)


def test_trace(client: Any, reverse: ModelTranslator) -> None:
    header, maps = trace_of(client)
    trace = reverse.trace(TEXT)
    assert header["kernel"] == "reference"
    assert (header["text"], header["translation"]) == (TEXT, "blue bird baby apple")
    assert [token["piece"] for token in header["src"]] == list(trace.src_tokens)
    assert [token["piece"] for token in header["tgt"]] == list(trace.tgt_tokens)
    assert [token["probability"] for token in header["tgt"]] == pytest.approx(trace.probabilities, abs=1e-6)
    assert {path: tuple(shape) for path, shape in header["taps"].items()} == {
        path: value.shape for path, value in trace.values.items()
    }
    assert set(maps) == {path for path in trace.values if path.endswith(".weights")}
    for path, value in maps.items():
        assert value.dtype == np.uint8
        assert np.abs(value / 255 - trace[path]).max() <= 0.5 / 255 + 1e-6


@pytest.mark.parametrize("model", ["0", "1"])
def test_search_and_trace_agree(client: Any, model: str) -> None:
    """The search runs step by step with its caches; the trace is one pass over what it found."""
    found = client.post("/api/translate", {"model": model, "text": TEXT}).json["alternatives"][0]
    header, _ = trace_of(client, model=model)
    log_probs = [math.log(token["probability"]) for token in header["tgt"]]
    expected = [token["log_prob"] for token in found["tokens"]]
    assert log_probs[: len(expected)] == pytest.approx(expected, abs=1e-4)
    assert [token["id"] for token in header["tgt"]][: len(expected)] == [token["id"] for token in found["tokens"]]


def test_a_trace_of_a_given_translation(client: Any, reverse: ModelTranslator) -> None:
    [ids] = reverse.tokenizer.encode_tgt(["cat bird"])
    header, _ = trace_of(client, tgt_ids=ids)
    same, _ = trace_of(client, tgt_ids=[*ids, EOS])
    assert header["translation"] == "cat bird"
    assert [token["id"] for token in header["tgt"]] == [*ids, EOS]
    assert same["trace"] == header["trace"]
    expected = reverse.trace(TEXT, "cat bird").probabilities
    assert [token["probability"] for token in header["tgt"]] == pytest.approx(expected, abs=1e-6)
    empty, _ = trace_of(client, tgt_ids=[])
    assert [token["id"] for token in empty["tgt"]] == [EOS]


def test_a_tensor_is_exact(client: Any, reverse: ModelTranslator) -> None:
    header, _ = trace_of(client)
    trace = reverse.trace(TEXT)
    place = f"/api/trace/{header['trace']}/tensor"
    for path in ("logits", "decoder.0.cross.q", "encoder.0.ffn.ffn_hidden"):
        _, arrays = client.get(f"{place}?path={path}").arrays()
        assert arrays[path].dtype == np.float32
        np.testing.assert_array_equal(arrays[path], trace[path])
    said, arrays = client.get(f"{place}?path=decoder.0.cross.weights&head=2").arrays()
    np.testing.assert_array_equal(arrays["decoder.0.cross.weights"], trace["decoder.0.cross.weights"][2])
    assert (said["path"], said["head"]) == ("decoder.0.cross.weights", 2)


def test_attention_can_be_computed_again_from_the_tensors(client: Any) -> None:
    header, _ = trace_of(client, model="1")
    place = f"/api/trace/{header['trace']}/tensor?path=decoder.1.cross"
    q, k, v, weights, out = (
        next(iter(client.get(f"{place}.{tap}&head=1").arrays()[1].values()))
        for tap in ("q", "k", "v", "weights", "head_out")
    )
    scores = q @ k.T / math.sqrt(q.shape[1])
    own = np.exp(scores - scores.max(axis=1, keepdims=True))
    own /= own.sum(axis=1, keepdims=True)
    assert np.abs(own - weights).max() < 1e-5
    assert np.abs(own @ v - out).max() < 1e-5


def test_next(client: Any, reverse: ModelTranslator) -> None:
    header, _ = trace_of(client, model="1")
    found = client.get(f"/api/trace/{header['trace']}/next?step=2&k=7").json
    assert len(found["top"]) == 7
    _, arrays = client.get(f"/api/trace/{header['trace']}/tensor?path=logits").arrays()
    logits = arrays["logits"][2]
    assert found["top"][0]["id"] == int(logits.argmax())
    assert found["top"][0]["piece"] == reverse.tokenizer.tgt.pieces([int(logits.argmax())])[0]
    assert found["top"][0]["logit"] == pytest.approx(logits.max(), abs=1e-5)
    chosen = header["tgt"][2]
    assert (found["chosen"]["id"], found["chosen"]["piece"]) == (chosen["id"], chosen["piece"])
    assert found["chosen"]["probability"] == pytest.approx(chosen["probability"], abs=1e-6)
    assert [one["layer"] for one in found["lens"]] == [0, 1]
    assert all(len(one["top"]) == 5 for one in found["lens"])
    assert found["lens"][-1]["chosen_probability"] == pytest.approx(chosen["probability"], abs=1e-5)
    assert found["lens"][-1]["chosen_rank"] == found["chosen"]["rank"]
    assert len(client.get(f"/api/trace/{header['trace']}/next?step=0").json["top"]) == 20


def test_block(client: Any) -> None:
    header, _ = trace_of(client, model="1")
    place = f"/api/trace/{header['trace']}"
    found = client.get(f"{place}/block?side=decoder&layer=1&position=2").json
    assert [stage["where"] for stage in found["stages"]][-1] == "decoder.1.ffn"
    assert len(found["stages"]) == 6
    _, arrays = client.get(f"{place}/tensor?path=decoder.1.ffn.ffn_hidden").arrays()
    hidden = arrays["decoder.1.ffn.ffn_hidden"][2]
    assert found["units"][0]["value"] == pytest.approx(np.abs(hidden).max(), abs=1e-6)
    assert len(found["units"]) == 12
    encoder = client.get(f"{place}/block?side=encoder&layer=0&position=0").json
    assert len(encoder["stages"]) == 4


def test_attention_summary(client: Any, reverse: ModelTranslator) -> None:
    header, _ = trace_of(client)
    heads = client.post("/api/attention-summary", {"trace": header["trace"]}).json["heads"]
    assert len(heads) == 3 * 4
    cross = [head for head in heads if head["where"] == "decoder.0.cross"]
    trace = reverse.trace(TEXT)
    expected = head_figures(trace["decoder.0.cross.weights"], "decoder.0.cross", trace.cross_attention())
    assert [head["alignment"] for head in cross] == [one.alignment for one in expected]
    assert max(head["alignment"] for head in cross) > 0.5
    assert {head["alignment"] for head in heads if not head["where"].endswith("cross")} == {None}
    assert [head["entropy"] for head in cross] == pytest.approx([one.entropy for one in expected])
    assert [head["head"] for head in cross] == [0, 1, 2, 3]


def test_beam(client: Any, reverse: ModelTranslator) -> None:
    found = client.post("/api/beam", {"text": TEXT, "options": {"beam": 3, "length_penalty": 1.0}}).json
    assert (found["beam"], found["length_penalty"], found["left_out"]) == (3, 1.0, 0)
    expected = reverse.translate([TEXT], n_best=3, beam=3, length_penalty=1.0)[0].alternatives
    assert [one["text"] for one in found["alternatives"]] == [one.text for one in expected]
    best = [node for node in found["nodes"] if node["state"] == "best"]
    assert [node["piece"] for node in best] == [token["piece"] for token in found["alternatives"][0]["tokens"]]
    assert found["nodes"][found["alternatives"][0]["node"]]["piece"] == "</s>"
    assert {node["state"] for node in found["nodes"]} >= {"alive", "pruned", "best"}
    forced = client.post("/api/beam", {"text": TEXT, "prefix_ids": [best[1]["id"]], "n_best": 1}).json
    assert [node["id"] for node in forced["nodes"] if node["step"] == 0] == [best[1]["id"]]
    assert len(forced["alternatives"]) == 1
    for rule in ("paper", "huggingface"):
        assert client.post("/api/beam", {"text": TEXT, "options": {"beam_rule": rule}}).json["beam_rule"] == rule


def test_a_trace_under_interventions(client: Any) -> None:
    plain, _ = trace_of(client)
    ids = [token["id"] for token in plain["tgt"]]
    head = {"kind": "head", "where": "decoder.0.cross", "head": 1}
    weight = {"kind": "weight", "where": "decoder.0.cross", "head": 2, "row": 1, "column": 0, "value": 0.75}
    header, maps = trace_of(client, tgt_ids=ids, interventions=[head, weight])
    assert header["trace"] != plain["trace"]
    assert header["interventions"] == [head, weight]
    assert maps["decoder.0.cross.weights"][1].max() == 0
    assert maps["decoder.0.cross.weights"][2, 1, 0] == round(0.75 * 255)
    assert [token["probability"] for token in header["tgt"]] != [token["probability"] for token in plain["tgt"]]
    again, _ = trace_of(client, tgt_ids=ids)
    assert again["tgt"] == plain["tgt"]


def test_effects_are_those_of_the_traces(client: Any) -> None:
    header, _ = trace_of(client)
    ids = [token["id"] for token in header["tgt"][:-1]]
    link = {"kind": "weight", "where": "decoder.0.cross", "head": 0, "row": 1, "column": 0, "value": 0.0}
    variants = [[], [OFF], [link, {**link, "head": 1}]]
    found = client.post("/api/effects", {"text": TEXT, "tgt_ids": ids, "variants": variants}).json
    assert found["after"][0] == found["before"]
    for variant, after in zip(variants, found["after"], strict=True):
        forced, _ = trace_of(client, tgt_ids=ids, interventions=variant)
        np.testing.assert_allclose(np.exp(after), [token["probability"] for token in forced["tgt"]], rtol=1e-4)
    assert sum(found["after"][1]) < sum(found["before"])
    many = client.post("/api/effects", {"text": TEXT, "tgt_ids": ids, "variants": [[]] * 65})
    assert many.status == 422, many.body


def test_without_the_mask_the_decoder_sees_the_future(client: Any) -> None:
    header, maps = trace_of(client, interventions=[{"kind": "mask"}])
    assert np.triu(maps["decoder.0.attention.weights"][0], 1).max() > 0
    assert header["translation"] == "blue bird baby apple"  # the search went with the mask


def test_compressed_on_the_wire(client: Any) -> None:
    plain = client.post("/api/trace", {"text": TEXT})
    small = client.post("/api/trace", {"text": TEXT}, accept_encoding="gzip, br")
    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert small.body == plain.body
    assert len(small.sent) < len(plain.sent)
    assert client.get("/api/openapi.json").json["openapi"].startswith("3.")


def test_old_traces_are_made_again(serve: Any, reverse_model: Path, page: Path, tmp_path: Path) -> None:
    with serve([reverse_model], tmp_path, page, TraceCache(max_traces=1, max_passages=2)) as client:
        names = [trace_of(client, text=text)[0]["trace"] for text in ("apple", "baby", "bird")]
        entries = client.api.traces.entries
        assert [name for name, one in entries.items() if one.traced is not None] == names[-1:]
        gone = client.get(f"/api/trace/{names[0]}/next?step=0")
        assert (gone.status, gone.json["error"]) == (404, f"there is no trace '{names[0]}', or no longer")
        again = client.get(f"/api/trace/{names[1]}/next?step=0")
        assert again.json["top"][0]["piece"] == "▁baby"


def test_runs_and_their_metrics(client: Any, reverse_model: Path) -> None:
    found = client.get("/api/runs").json
    assert [run["name"] for run in found["runs"]] == [reverse_model.parent.name]
    [run] = found["runs"]
    assert (run["live"], run["model"], run["step"]) == (False, True, run["checkpoints"][-1])
    assert found["toy"] is None
    rows = client.get(f"/api/runs/{run['name']}/metrics").json["rows"]
    lines = (reverse_model.parent / "metrics.jsonl").read_text("utf-8").splitlines()
    assert rows == [json.loads(line) for line in lines]
    last = client.get(f"/api/runs/{run['name']}/metrics?after={rows[-1]['step'] - 1}").json["rows"]
    assert [row["step"] for row in last] == [rows[-1]["step"]] * len(last)
    assert client.get(f"/api/runs/{run['name']}/metrics?after={rows[-1]['step']}").json["rows"] == []


def test_attention_through_a_training(client: Any, reverse_model: Path) -> None:
    name = reverse_model.parent.name
    header, maps = client.get(f"/api/runs/{name}/probes").arrays()
    steps = [one["step"] for one in header["snapshots"]]
    assert steps == client.get("/api/runs").json["runs"][0]["checkpoints"]
    assert header["forced"]
    probe, step, written = header["probes"][0], steps[-1], header["snapshots"][-1]["written"][0]
    checkpoint = ModelTranslator(reverse_model.parent / "checkpoints" / f"step-{step:08d}")
    rows = client.get(f"/api/runs/{name}/metrics").json["rows"]
    reference = next(row["samples"][0]["reference"] for row in rows if row.get("samples"))
    trace = checkpoint.trace(probe["text"], reference)
    assert probe["src"] == list(trace.src_tokens)
    assert written["tgt"] == list(trace.tgt_tokens)
    assert written["probabilities"] == pytest.approx(trace.probabilities, abs=6e-5)
    weights = maps[f"{step}/0/decoder.0.cross.weights"]
    assert np.abs(weights / 255 - trace["decoder.0.cross.weights"]).max() <= 0.5 / 255 + 1e-6
    later, maps = client.get(f"/api/runs/{name}/probes?after={step}").arrays()
    assert (later["snapshots"], maps) == ([], {})


def test_the_attention_history_of_a_model(serve: Any, reverse: ModelTranslator, page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(reverse.folder, folder)
    history = ProbeHistory.begin((TEXT,), reverse.tokenizer, reverse.model)
    snapshot = take_snapshot(ModelTranslator(folder).model, reverse.tokenizer, history, 450)
    (folder / "probes.safetensors").write_bytes(encode(history.with_snapshot(snapshot)))
    with serve([folder], tmp_path / "runs", page) as client:
        assert client.get("/api/models").json["models"][0]["recorded"]
        header, maps = client.get("/api/models/0/probes").arrays()
        assert [one["step"] for one in header["snapshots"]] == [450]
        assert header["snapshots"][0]["written"][0]["tgt"] == ["▁blue", "▁bird", "▁baby", "▁apple", "</s>"]
        exact = reverse.trace(TEXT)["decoder.0.cross.weights"]
        assert np.abs(maps["450/0/decoder.0.cross.weights"] / 255 - exact).max() <= 0.5 / 255 + 1e-6
        assert client.get("/api/models/0/probes?after=450").arrays()[0]["snapshots"] == []


def test_the_page(client: Any) -> None:
    reply = client.get("/", accept_encoding="gzip")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/html")
    assert reply.body.startswith(b"<!doctype html>")
    assert len(reply.sent) < len(reply.body)
    assert reply.headers["cache-control"] == "no-cache"
    script = client.get("/assets/index-abc.js")
    assert "javascript" in script.headers["content-type"]
    assert "immutable" in script.headers["cache-control"]


def test_a_page_that_is_not_built_says_how(serve: Any, deep_model: Path, tmp_path: Path) -> None:
    with serve([deep_model], tmp_path, tmp_path / "nowhere") as client:
        reply = client.get("/")
        assert reply.status == 503
        assert b"web/build.py" in reply.body
        assert client.get("/api/models").status == 200


def test_the_model_for_the_page(client: Any, deep: ModelTranslator) -> None:
    header, files = client.get("/api/models/1/packed").arrays()
    assert header["model"]["name"] == "deep"
    assert files["weights.safetensors"].tobytes() == (deep.folder / "weights.safetensors").read_bytes()
    for name, content in deep.tokenizer.files().items():
        assert files[name].tobytes() == content


def test_what_is_small_is_not_compressed(client: Any) -> None:
    reply = client.get("/health", Accept_Encoding="gzip")
    assert (reply.status, "content-encoding" in reply.headers) == (200, False)
    assert reply.json["models"] == 2
