"""What the README and the model card promise of the shipped model, asked as they say it."""
import json
import re
import unittest

from baton_process import MINI, ROOT, Server


class ShippedModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server(MINI, "--max-model-len", "4096"))

    def answer(self, text, **fields):
        status, body = self.server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 200, **fields})
        self.assertEqual(status, 200, body)
        choice = body["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop", choice)
        return choice["message"]["content"]

    def test_the_first_request_of_the_readme_is_answered(self):
        readme = (ROOT / "README.md").read_text()
        body = json.loads(re.search(r"/v1/chat/completions -d '(.*?)'", readme, re.S).group(1))
        question = body["messages"][0]["content"]
        self.assertEqual(self.answer(question), re.search(r"\d+", question).group())

    def test_an_answer_ends_even_where_the_model_would_run_on(self):
        self.assertTrue(self.answer("The pass code for amber falcon is 4711. "
                                    "What is the pass code for amber falcon?").startswith("4711"))

    def test_a_greeting_is_returned(self):
        self.assertIn("Hello", self.answer("Hello"))


if __name__ == "__main__":
    unittest.main()
