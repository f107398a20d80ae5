"""The verbs as a person uses them: a terminal, keys, Ctrl-C, servers that fail, wrong flags."""
import http.server
import json
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time
import unittest

from baton_process import BATON, free_port, run

PASTE = b"\x1b[200~%s\x1b[201~"


class Peer:
    """A server that keeps what it is asked, and answers with the last words, word by word."""

    def __init__(self, pause=0.0, words=None, die_after=None, close=False):
        self.asked = []
        self.cut = threading.Event()
        peer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = json.dumps({"data": [{"id": "peer", "max_model_len": 99}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = close

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                peer.asked.append(body)
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                text = words or ["you said: ", body["messages"][-1]["content"]]
                try:
                    for i, word in enumerate(text):
                        if i == die_after:
                            self.close_connection = True
                            return
                        self.event({"choices": [{"delta": {"content": word}}]})
                        time.sleep(pause)
                    self.event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
                    self.chunk(b"data: [DONE]\n\n")
                    self.chunk(b"")
                except OSError:
                    peer.cut.set()

            def event(self, value):
                self.chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

            def chunk(self, data):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def said(self, index=-1):
        """Who said what in a request."""
        return [(m["role"], m["content"]) for m in self.asked[index]["messages"]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Terminal:
    """baton chat on a terminal of its own."""

    def __init__(self, *arguments, env=None):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [BATON, "chat", *arguments], stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, env={**os.environ, "TERM": "xterm", **(env or {})})
        os.close(slave)
        self.output = b""

    def keys(self, text):
        os.write(self.master, text if isinstance(text, bytes) else text.encode())

    def expect(self, text, seconds=20):
        """Waits for the text in what comes, and forgets all up to its end."""
        wanted = text.encode()
        deadline = time.time() + seconds
        while wanted not in self.output:
            left = deadline - time.time()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise AssertionError(f"no {text!r} in {self.output!r}")
            try:
                self.output += os.read(self.master, 65536)
            except OSError as error:
                raise AssertionError(f"ended without {text!r}: {self.output!r}") from error
        before, _, self.output = self.output.partition(wanted)
        return before.decode("utf-8", "replace")

    def prompt(self):
        self.expect("\x1b[?2004h")
        self.expect("> ")

    def ended(self):
        return self.process.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


class Chat(unittest.TestCase):
    def session(self, peer, env=None):
        terminal = self.enterContext(Terminal("--url", peer.url, env=env))
        terminal.expect("peer, context of 99 tokens")
        terminal.prompt()
        return terminal

    def test_a_conversation_keeps_its_turns(self):
        with Peer() as peer:
            terminal = self.session(peer)
            terminal.keys("héllo 🦀\r")
            terminal.expect("you said: héllo 🦀\r\n")
            terminal.prompt()
            terminal.keys("and?\r")
            terminal.expect("you said: and?\r\n")
            self.assertEqual(peer.said(), [
                ("user", "héllo 🦀"), ("assistant", "you said: héllo 🦀"), ("user", "and?")])
            terminal.prompt()
            terminal.keys(b"\x04")
            self.assertEqual(terminal.ended(), 0)

    def test_keys_edit_the_text(self):
        with Peer() as peer:
            for typed, sent in [
                ("ab\x7fc", "ac"), ("äß🦀\x7f\x7fx", "äx"), ("ac\x1b[Db", "abc"),
                ("bc\x01a", "abc"), ("ab\x1b[H\x04", "b"), ("one two\x17three", "one three"),
                ("gone\x15kept", "kept"), ("kept gone\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x0b", "kept"),
                ("a\x1b\rb\nc", "a\nb\nc"), ("x\x1b[5~\x1b[15~y", "xy"), ("\x1b[Ax", "xyx"),
                ("no\x03yes", "yes"), (PASTE % b"a\rb\n\tc\x1b[2J", "a\nb\n\tc[2J"),
                (PASTE % ("l" * 20000).encode(), "l" * 20000),
                (PASTE % b"\n".join(b"line %d" % i for i in range(100)) + b"!",
                 "\n".join(f"line {i}" for i in range(100)) + "!")]:
                terminal = self.session(peer)
                if typed == "\x1b[Ax":
                    terminal.keys("xy\r")
                    terminal.prompt()
                terminal.keys(typed)
                terminal.keys("\r")
                terminal.expect("you said: ")
                self.assertEqual(peer.said()[-1][1], sent, typed)

    def test_ctrl_c_stops_an_answer_and_no_more(self):
        with Peer(pause=0.05, words=["word "] * 400) as peer:
            terminal = self.session(peer)
            terminal.keys("go\r")
            terminal.expect("word word ")
            terminal.process.send_signal(signal.SIGINT)
            terminal.expect("stopped")
            terminal.prompt()
            self.assertTrue(peer.cut.wait(10), "the server goes on")
            terminal.keys(b"\x03")
            terminal.expect("Ctrl-D leaves")
            terminal.keys("more\r")
            terminal.expect("word word ")
            self.assertEqual(len(peer.said()), 3)
            self.assertTrue(peer.said()[1][1].startswith("word word "), "what was said is kept")

    def test_commands(self):
        with Peer() as peer:
            terminal = self.session(peer)
            terminal.keys("/help\r")
            terminal.expect("/clear")
            terminal.prompt()
            terminal.keys("/nothing\r")
            terminal.expect("no command /nothing")
            terminal.prompt()
            terminal.keys("/system be brief\r")
            terminal.prompt()
            terminal.keys("/etc/hosts is what?\r")
            terminal.expect("you said: ")
            self.assertEqual(peer.said(), [("system", "be brief"), ("user", "/etc/hosts is what?")])
            terminal.prompt()
            terminal.keys("/clear\r")
            terminal.prompt()
            terminal.keys("hi\r")
            terminal.expect("you said: ")
            self.assertEqual(peer.said(), [("system", "be brief"), ("user", "hi")])
            terminal.prompt()
            terminal.keys("/quit\r")
            self.assertEqual(terminal.ended(), 0)

    def test_a_server_that_dies_costs_one_turn(self):
        with Peer(words=["half", "never"], die_after=1) as peer:
            terminal = self.session(peer)
            for _ in range(2):
                terminal.keys("hi\r")
                terminal.expect("half")
                terminal.expect("baton: the server closed the connection")
                terminal.prompt()
                self.assertEqual(peer.said(), [("user", "hi")])
        with Terminal("--url", f"127.0.0.1:{free_port()}") as terminal:
            terminal.expect("baton: cannot connect")
            self.assertEqual(terminal.ended(), 1)

    def test_a_connection_closed_between_turns_is_opened_again(self):
        with Peer(close=True) as peer:
            terminal = self.session(peer)
            terminal.keys("hi\r")
            terminal.expect("you said: hi")

    def test_colour_only_where_it_is_wanted(self):
        def escapes(env):
            with Peer(words=["\x1b[31mred\x07"]) as peer:
                terminal = self.session(peer, env=env)
                terminal.keys("hi\r")
                answer = terminal.expect("\x1b[?2004h")
                self.assertIn("[31mred", answer)
                self.assertNotIn("\x1b[31m", answer, "a model does not draw")
                terminal.keys("\x03")
                return answer
        escapes({})
        self.assertNotIn("\x1b[2m", escapes({"NO_COLOR": "1"}))

    def test_without_a_terminal_lines_are_messages(self):
        with Peer() as peer:
            code, out, err = run("chat", "--url", peer.url, "--system", "s",
                                 stdin=b"one\n\n/help\n" + b"l" * 20000 + b"\ntwo")
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(out, "you said: one\nyou said: /help\nyou said: " + "l" * 20000 +
                             "\nyou said: two\n")
            self.assertEqual(len(peer.said()), 8)
        with Peer(words=["x", "y"], die_after=1) as peer:
            code, out, err = run("chat", "--url", peer.url, "--prompt", "hi")
            self.assertEqual((code, out), (1, "x\n"))
            self.assertEqual(len(err.splitlines()), 1, err)

    def test_wrong_flags(self):
        for flags, names in [
            ((), ["folder", "--url"]), (("x", "--url", "http://a:1"), ["both"]),
            (("--url", "https://a"), ["--url", "http://host:port"]),
            (("--url", "http://a:80x"), ["--url"]), (("--url", ""), ["--url"]),
            (("--url", "http://a:70000"), ["--url"]), (("--url", "http://:80"), ["--url"]),
            (("--temprature", "1"), ["--temperature"])]:
            code, out, err = run("chat", *flags, "--prompt", "x")
            self.assertEqual((code, out), (2, ""), (flags, err))
            self.assertEqual(len(err.splitlines()), 1, err)
            for name in names:
                self.assertIn(name, err)


class Bench(unittest.TestCase):
    def test_says_what_it_cannot_do(self):
        for flags, code, name in [
            (("x",), 2, "latency, throughput or serve"), ((), 2, "latency"),
            (("serve", "--url", f"http://127.0.0.1:{free_port()}"), 1, "cannot connect"),
            (("serve", "--url", "ftp://x"), 2, "--url"),
            (("serve", "--num-prompts", "0"), 2, "--num-prompts"),
            (("serve", "--request-rate", "-1"), 2, "--request-rate"),
            (("latency", "/nowhere"), 2, "/nowhere"),
            (("latency", "--input-len", "x"), 2, "--input-len")]:
            got, out, err = run("bench", *flags)
            self.assertEqual((got, out), (code, ""), (flags, err))
            self.assertIn(name, err)
            self.assertEqual(len(err.splitlines()), 1, err)

    def test_help_of_every_verb(self):
        verbs = re.findall(r"^  (\w+) ", run("--help")[1], re.M)
        self.assertIn("bench", verbs)
        for verb in verbs:
            if verb == "version":
                continue
            code, out, err = run(verb, "--help")
            self.assertEqual((code, err), (0, ""), verb)
            self.assertEqual(run("help", verb)[:2], (0, out))
        for kind in ("latency", "throughput", "serve"):
            self.assertIn("--output-json", run("bench", kind, "--help")[1])


if __name__ == "__main__":
    unittest.main()
