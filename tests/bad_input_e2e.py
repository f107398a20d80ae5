"""Bad flags, files and folders: one clear line, exit code 2, nothing half-started."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import struct
import tempfile
import unittest

from baton_process import ROOT, Server, free_port, run, scripted_model, wait_until

TINY = ROOT / "testdata/qwen3"


def read_header(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + length]), data[8 + length:]


def write_tensors(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class BadInput(unittest.TestCase):
    def fails(self, *arguments, names=(), env=None):
        """Expects one line on standard error that holds all of `names`, and exit code 2."""
        code, out, err = run("serve", *arguments, "--host", "127.0.0.1", "--port", free_port(),
                             "--log-level", "error", env=env)
        self.assertEqual(code, 2, err)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertEqual(out, "")
        for name in names:
            self.assertIn(str(name), err)
        return err

    @classmethod
    def setUpClass(cls):
        cls.scripted = cls.enterClassContext(scripted_model(["x"]))

    def copy(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for file in TINY.iterdir():
            if not file.name.startswith("golden"):
                shutil.copy(file, folder / file.name)
        return folder

    def test_flags_that_are_none(self):
        for flags, names in [
            (["--max-model-length", "5"], ["--max-model-length", "--max-model-len"]),
            (["--tensor-parallel-size", "8"], ["--tensor-parallel-size", "--compat"]),
            (["--speculative-config.method", "mtp"], ["--speculative-config", "--compat"]),
            (["--speculative-config", "{"], ["--speculative-config", "JSON"]),
            (["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 65}'],
             ["--speculative-config", "num_speculative_tokens", "1..64", "65"]),
            (["--speculative-config", '{"method": "ngram", "draft": 1}'],
             ["--speculative-config", "draft", "prompt_lookup_max"]),
            (["--port", "x"], ["port"]),
            (["--max-num-seqs", "0"], ["--max-num-seqs"]),
            (["--max-queued-tokens", "-1"], ["--max-queued-tokens"]),
            (["--max-model-len", "-5"], ["--max-model-len"]),
            (["--max-model-len", "32q"], ["--max-model-len", "32q"]),
            (["--max-model-len", "nan"], ["--max-model-len"]),
            (["--max-num-batched-tokens", "0"], ["--max-num-batched-tokens"]),
            (["--gpu-memory-utilization", "1.5"], ["--gpu-memory-utilization"]),
            (["--kv-cache-dtype", "int3"], ["--kv-cache-dtype", "int3"]),
            (["--index-cache-dtype", "int3"], ["--index-cache-dtype", "int3"]),
            (["--dtype", "float17"], ["--dtype", "float17"]),
            (["--device", "tpu"], ["--device", "tpu"]),
            (["--kernels", "magic"], ["magic"]),
            (["--tool-call-parser", "nobody"], ["--tool-call-parser", "glm47", "hermes"]),
            (["--reasoning-parser", "x"], ["--reasoning-parser", "glm45"]),
            (["--log-level", "loud"], ["--log-level"]),
            (["--drain-timeout", "-1"], ["--drain-timeout"]),
            (["--stall-timeout", "nan"], ["--stall-timeout", "nan"]),
            (["--allowed-origins", "a.test"], ["--allowed-origins", "a.test"]),
            (["--ping-interval", "1e300"], ["--ping-interval"]),
            (["--http-threads", "1000000"], ["--http-threads", "1024"]),
            (["--max-body-bytes", "x"], ["--max-body-bytes"]),
            (["--max-body-bytes", "0"], ["--max-body-bytes"]),
            (["extra"], ["extra"]),
            (["--config", "/nowhere.yaml"], ["/nowhere.yaml"]),
        ]:
            with self.subTest(flags=flags):
                self.fails(self.scripted, *flags, names=names)
        self.fails(names=["--model"])
        self.fails(self.scripted, names=["--max-num-seqs"], env={"BATON_MAX_NUM_SEQS": "0"})
        # Kubernetes sets this where a service is called "baton". The port is a flag in fails().
        self.fails(self.scripted, names=["max-num-seqs", "BATON_MAX_NUM_SEQS"],
                   env={"BATON_MAX_NUM_SEQS": "tcp://10.0.0.1:8000"})

    def test_more_context_than_there_is(self):  # NU-03
        self.fails(self.scripted, "--max-model-len", "1M", names=["1048576"])
        self.fails(self.scripted, "--kv-cache-memory-bytes", "100", names=["--kv-cache-memory-bytes"])

    def test_folders_that_are_none(self):
        empty = self.enterContext(tempfile.TemporaryDirectory())
        self.fails("/nowhere", names=["/nowhere"])
        self.fails(TINY / "config.json", names=["config.json"])
        self.fails(empty, names=[empty])

    def test_broken_json(self):
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json",
                     "generation_config.json"):
            with self.subTest(name=name):
                folder = self.copy()
                folder.joinpath(name).write_text('{"a": ')
                self.fails(folder, names=[name])

    def test_absent_files(self):
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            with self.subTest(name=name):
                folder = self.copy()
                folder.joinpath(name).unlink()
                self.fails(folder, names=[name.split(".")[0]])

    def test_a_template_that_cannot_be_parsed(self):  # CT-07
        folder = self.copy()
        folder.joinpath("chat_template.jinja").write_text("{% for x in %}")
        self.fails(folder, names=["chat_template.jinja"])

    def test_models_nobody_knows(self):  # NU-01
        for model_type in ("unknown_x", "qwen33"):
            folder = self.copy()
            config = json.loads(folder.joinpath("config.json").read_text())
            config.update(model_type=model_type, architectures=["UnknownForCausalLM"])
            folder.joinpath("config.json").write_text(json.dumps(config))
            self.fails(folder, names=["qwen3"])

    def test_truncated_weights(self):
        for keep in (0, 4, 100, -10):
            with self.subTest(keep=keep):
                folder = self.copy()
                path = folder / "model.safetensors"
                path.write_bytes(path.read_bytes()[:keep])
                self.fails(folder, names=["model.safetensors"])

    def test_tensors_that_do_not_fit(self):
        header, data = read_header(TINY / "model.safetensors")
        names = [name for name in header if name != "__metadata__"]
        norm = next(name for name in names if name.endswith("input_layernorm.weight"))

        def changed(change):
            new = json.loads(json.dumps(header))
            change(new)
            folder = self.copy()
            write_tensors(folder / "model.safetensors", new, data)
            return folder

        def rename(new):  # one is missing, and one nobody asked for
            new[norm + "_"] = new.pop(norm)

        def reshape(new):
            new[norm]["shape"] = [2, new[norm]["shape"][0] // 2]

        def retype(new):
            new[norm]["dtype"] = "I64"

        def overlap(new):
            new[norm]["data_offsets"] = new[names[0] if names[0] != norm else names[1]][
                "data_offsets"]

        for change in (rename, reshape, retype, overlap):
            with self.subTest(change=change.__name__):
                self.fails(changed(change), names=["model.safetensors"] if change is not rename
                           else [norm])

    def test_less_memory_than_is_needed(self):
        """Under a limit of the address space: what does not fit, and the flag to change."""
        flags = ["--host", "127.0.0.1", "--port", free_port(), "--log-level", "error",
                 "--max-num-seqs", "1", "--cpu-threads", "1"]
        for megabytes, more, names in [
                (400, ["--max-model-len", "2048", "--kv-cache-memory-bytes", "4G"],
                 ["available", "lower --kv-cache-memory-bytes"]),
                (400, ["--max-num-batched-tokens", "4M"],
                 ["available", "workspace", "lower --max-num-seqs or --max-num-batched-tokens"]),
                (30, [], ["--cpu-threads", "ulimit"])]:
            with self.subTest(megabytes=megabytes):
                code, _, err = run("serve", TINY, *flags, *more,
                                   address_space=megabytes << 20)
                self.assertEqual(code, 2, err)
                self.assertEqual(len(err.splitlines()), 1, err)
                for name in names:
                    self.assertIn(name, err)

    def test_weights_that_become_shorter_while_in_use(self):
        folder = self.copy()
        with Server(folder, "--max-model-len", "128") as server:
            os.truncate(folder / "model.safetensors", 4096)
            with contextlib.suppress(OSError, http.client.HTTPException):
                server.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 3})
            self.assertTrue(wait_until(lambda: server.process.poll() is not None))
            self.assertEqual(server.process.returncode, 2, server.text())
            self.assertIn(f"baton: {folder}/model.safetensors: cannot be read any more", server.text())

    def test_a_tokenizer_of_a_larger_model(self):
        self.fails(TINY, "--tokenizer", ROOT / "models/baton-mini", names=["tokenizer.json", "vocab_size, 512"])

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            code, _, err = run("serve", self.scripted, "--host", "127.0.0.1", "--port", port,
                               "--log-level", "error")
        self.assertEqual(code, 2, err)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn(str(port), err)

    def test_verbs_that_are_none(self):
        code, _, err = run("sevre")
        self.assertEqual(code, 2)
        self.assertIn("serve", err)
        self.assertEqual(run("bench", "x")[0], 2)
        self.assertEqual(run("chat", "/nowhere", "--prompt", "x")[0], 2)


class Layers(unittest.TestCase):
    """Flags over environment over file over default."""

    def test_order_and_sources(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("max_num_seqs: 3\nmax-model-len: 32k\nport: 1\n"
                       "served-model-name: [a, b]\nenable-prefix-caching: false\n")
            file.flush()
            code, out, err = run("serve", "m", "--config", file.name, "--port", "9",
                                 "--print-config", "--api-key", "secret",
                                 env={"BATON_MAX_NUM_SEQS": "5"})
        self.assertEqual(code, 0, err)
        lines = out.splitlines()
        for line in ("max-num-seqs: 5  # environment", "max-model-len: 32k  # file",
                     "port: 9  # flag", "served-model-name: [a, b]  # file",
                     "enable-prefix-caching: false  # file", "max-queued-requests: 1024  # default",
                     "model: m  # flag"):
            self.assertIn(line, lines)
        self.assertNotIn("secret", out)

    def print_config(self, text, *flags, env=None):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            return run("serve", "m", "--config", file.name, "--print-config", *flags, env=env)

    def test_every_name_of_an_option_counts_in_a_file(self):
        code, out, err = self.print_config("no-enable-graphs: true\n",
                                           env={"BATON_NO_ENABLE_PREFIX_CACHING": "true"})
        self.assertEqual(code, 0, err)
        self.assertIn("enable-graphs: false  # file", out)
        self.assertIn("enable-prefix-caching: false  # environment", out)

    def test_a_file_with_a_name_nobody_knows(self):
        for text, name in (("max-num-seq: 3\n", "max-num-seqs"), ("config: x\n", "'config'"),
                           ("help: true\n", "'help'"), ("max-num-seqs: many\n", ".yaml")):
            with self.subTest(text=text):
                code, _, err = self.print_config(text)
                self.assertEqual(code, 2)
                self.assertIn(name, err)

    def test_a_folder_is_no_file(self):
        code, _, err = run("serve", "m", "--config", tempfile.gettempdir(), "--print-config")
        self.assertEqual(code, 2)
        self.assertIn("got a folder", err)

    def test_compat_counts_wherever_it_stands(self):
        for text, env in (("compat: true\n", {}), ("", {"BATON_COMPAT": "1"})):
            code, _, err = self.print_config(text + "tensor-parallel-size: 8\n",
                                             "--block-size", "16", env=env)
            self.assertEqual(code, 0, err)
            self.assertIn("block-size", err)

    def test_what_it_prints_is_a_file_it_reads(self):
        def names(text):
            return sorted(line.rsplit("  # ", 1)[0] for line in text.splitlines())

        code, printed, err = run("serve", "m", "--speculative-config.method", "ngram",
                                 "--speculative-config.num_speculative_tokens", "3",
                                 "--served-model-name", "a", "b", "--print-config")
        self.assertEqual(code, 0, err)
        code, again, err = self.print_config(printed)
        self.assertEqual(code, 0, err)
        self.assertEqual(names(again), names(printed))

    def test_a_map_in_the_file_is_the_dotted_form(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("speculative-config: {method: ngram, num_speculative_tokens: 3}\n")
            file.flush()
            code, out, err = run("serve", "m", "--config", file.name, "--print-config")
            self.assertEqual(code, 0, err)
            self.assertIn("speculative-config.method: ngram  # file", out)
            file.write("max-num-seqs: {a: 3}\n")
            file.flush()
            code, _, err = run("serve", "m", "--config", file.name)
        self.assertEqual(code, 2)
        self.assertIn("max-num-seqs.a", err)

    def test_the_command_line_of_the_glm_team(self):
        code, out, err = run(
            "serve", "zai-org/GLM-5.1-FP8", "--tensor-parallel-size", "8",
            "--gpu-memory-utilization", "0.85", "--speculative-config.method", "mtp",
            "--speculative-config.num_speculative_tokens", "3", "--tool-call-parser", "glm47",
            "--reasoning-parser", "glm45", "--enable-auto-tool-choice", "--compat",
            "--print-config")
        self.assertEqual(code, 0, err)
        self.assertIn("tensor-parallel-size", err)
        self.assertIn("model: zai-org/GLM-5.1-FP8  # flag", out)


if __name__ == "__main__":
    unittest.main()
