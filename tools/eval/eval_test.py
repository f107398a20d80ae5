"""Run with: python3 -m unittest discover -s tools/eval -p '*_test.py'"""

import http.server
import json
import pathlib
import random
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import crossref  # noqa: E402
import endpoint  # noqa: E402
import needles  # noqa: E402
import recall  # noqa: E402
import toolcalls  # noqa: E402
import dialogues  # noqa: E402
import facts  # noqa: E402


class Documents(unittest.TestCase):
    def test_the_same_seed_gives_the_same_document_and_another_seed_another(self):
        a, b, c = (needles.make_document(seed, 6000, 8) for seed in (3, 3, 4))
        self.assertEqual(a, b)
        self.assertNotEqual(a[0], c[0])

    def test_every_statement_stands_in_the_document_once_near_its_depth(self):
        text, hidden = needles.make_document(5, 30_000, 12)
        for needle in hidden:
            statement = "\n" + needle.statement.rstrip("\n") + "\n"
            self.assertEqual(text.count(statement), 1, statement)
            self.assertAlmostEqual(text.index(statement) / len(text), needle.depth, delta=0.05)

    def test_a_document_has_about_the_length_asked_for(self):
        for n_chars in (4000, 200_000):
            text, _ = needles.make_document(1, n_chars, 10)
            self.assertLess(abs(len(text) - n_chars) / n_chars, 0.1)

    def test_keys_come_from_the_pairs_that_training_leaves_out(self):
        rng = random.Random(0)
        place = {w: i for i, w in enumerate(needles.WORDS)}
        for kind in needles.KINDS:
            for _ in range(50):
                words = needles.random_key(rng, kind).lower().replace("_", " ").split()
                self.assertTrue(facts.is_held_back_pair(place[words[0]], place[words[1]]))

    def test_a_raw_prompt_is_a_statement_cut_before_its_value(self):
        rng = random.Random(2)
        for _ in range(100):
            needle = needles.make_needle(rng, 0.5)
            self.assertIn(needle.key, needle.raw_prompt)
            self.assertNotIn(needle.value, needle.raw_prompt.replace(needle.key, ""))


class Scores(unittest.TestCase):
    def needle(self, value):
        return needles.Needle(0.5, "code", "key", value, "", "", "")

    def test_chat_answers_count_only_when_they_are_the_value(self):
        self.assertTrue(recall.is_exact(" 4821\n", self.needle("4821")))
        for wrong in ("48210", "4821.", "the value is 4821", ""):
            self.assertFalse(recall.is_exact(wrong, self.needle("4821")))

    def test_raw_answers_may_go_on_but_not_inside_the_word(self):
        self.assertTrue(recall.is_exact_raw(" 4821\nassert", self.needle("4821")))
        self.assertTrue(recall.is_exact_raw("(alpha, beta):", self.needle("alpha, beta")))
        self.assertFalse(recall.is_exact_raw(" 48210", self.needle("4821")))
        self.assertFalse(recall.is_exact_raw(" 482", self.needle("4821")))

    def test_the_summary_sorts_answers_into_depths(self):
        rows = [(0.05, "code", True), (0.1, "code", False), (0.95, "phrase", True)]
        summary = recall.summarise(rows, 5)
        self.assertEqual(summary["by_depth"], [0.5, None, None, None, 1.0])
        self.assertEqual(summary["by_kind"], {"code": 0.5, "phrase": 1.0})

    def test_a_tool_call_needs_its_name_and_equal_arguments(self):
        def message(name, arguments, n=1):
            return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}] * n}
        self.assertEqual(toolcalls.judge(message("f", '{"b": 1, "a": "<"}'), "f", {"a": "<", "b": 1}), "")
        self.assertEqual(toolcalls.judge(message("f", ""), "f", {}), "")
        for wrong in (message("g", "{}"), message("f", "{"), message("f", '{"a": "1"}'), message("f", "{}", 2), {}):
            self.assertNotEqual(toolcalls.judge(wrong, "f", {"a": 1}), "")


class CrossReferences(unittest.TestCase):
    def test_every_answer_can_be_derived_from_the_document(self):
        text, questions = crossref.make_repository(11, 60_000, 16)
        lines = text.splitlines()
        self.assertEqual({hops for _, _, hops, _ in questions}, {1, 2})
        for question, answer, hops, _ in questions:
            key = question.rstrip("?").split()[-1]
            if hops == 2:
                alias = next(line for line in lines if line.startswith(key + " = "))
                key = alias.split(" = ")[1]
            definition = [line for line in lines if answer in line and key in line]
            self.assertEqual(len(definition), 1, question)


class ToolPrompts(unittest.TestCase):
    def test_held_back_tools_never_occur_in_training_dialogues(self):
        rng = random.Random(5)
        for _ in range(200):
            trained = dialogues.single_tool(rng)[0]
            self.assertFalse(any(dialogues.is_held_back_tool(t["function"]["name"]) for t in trained))
            kept = dialogues.single_tool(rng, held_back=True)[0]
            self.assertTrue(all(dialogues.is_held_back_tool(t["function"]["name"]) for t in kept))

    def test_every_argument_value_stands_in_the_request(self):
        rng = random.Random(6)
        for _ in range(200):
            _, user, _, arguments = dialogues.single_tool(rng)
            for value in arguments.values():
                self.assertIn(dialogues.shown(value), user)


class OracleServer(http.server.BaseHTTPRequestHandler):
    """Answers recall questions by reading the document: what a perfect model would do."""

    def reply(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply({"data": [{"id": "oracle"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        hidden = self.server.needles
        answer = next(n.value for n in hidden if prompt.endswith(n.question) and n.statement.rstrip("\n") in prompt)
        self.reply({"choices": [{"message": {"role": "assistant", "content": answer}}], "usage": {"prompt_tokens": 7}})

    def log_message(self, *_):
        pass


class OverHttp(unittest.TestCase):
    def test_a_perfect_server_scores_one_and_reports_prompt_tokens(self):
        server = http.server.HTTPServer(("127.0.0.1", 0), OracleServer)
        _, server.needles = needles.make_document(1 * 1_000_003 + 1024 * 101, 4000, 5)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            client = endpoint.Endpoint(f"http://127.0.0.1:{server.server_port}")
            rows, tokens, misses = recall.measure(client, 1024, 1, 5, 1, 4000 / 1024, False, needles.KINDS)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        self.assertEqual((len(rows), misses, tokens), (5, [], 7))
        self.assertTrue(all(exact for _, _, exact in rows))


if __name__ == "__main__":
    unittest.main()
