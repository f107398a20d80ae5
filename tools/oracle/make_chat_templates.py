#!/usr/bin/env python3
"""Makes testdata/chat_templates: our own templates, their inputs and what Python renders.

    python3 tools/oracle/make_chat_templates.py [--out testdata]
    python3 tools/oracle/make_chat_templates.py --check DIR --out FILE

The second form renders the conversations through every DIR/*.jinja instead, to compare a published template with:
BATON_CONVERSATIONS=FILE build/release/src/text/text_test --gtest_filter='*AsThePythonReference'.

The environment is the one transformers compiles chat templates in (sandbox, trim_blocks, lstrip_blocks, loop
controls, generation tag, tojson as json.dumps); strftime_now is frozen so that results do not age.
"""

import argparse
import copy
import datetime
import json
import os
import random
import shutil

import jinja2
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

from template_snippets import GROUPS

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = datetime.datetime(2026, 3, 5, 14, 7, 9)
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a city, <now> & later — 天气",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Name"}, "days": {"type": "integer", "default": 1, "minimum": 1},
        "units": {"type": "string", "enum": ["c", "f"], "x-note": {"a": [1, 2.5]}}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "search", "description": "  spaced  ", "parameters": {
        "type": "object", "properties": {"query": {"type": "string"}, "filters": {"type": "object"}},
        "additionalProperties": False}}}]
ARGUMENTS = [{"city": "北京"}, {"city": "Paris \"x\"", "days": 2}, {"query": "a <b> & 'c'", "filters": {"k": [1, 2.5, None, True]}},
             {}, {"days": 3, "city": "line\nbreak"}, {"query": "", "filters": {}}]
SAID = ["Hello there", "hi", "Tell me more, please.", "  padded  ", "你好 😀", "multi\nline\n", "a </tag> b", "x/nothink", "<b>&amp;</b>"]


def render(template, variables):
    """("expected", text) or ("error", kind and message)."""
    try:
        compiled = _compile_jinja_template(template)
        compiled.environment.globals["strftime_now"] = lambda form: NOW.strftime(form)
        return "expected", compiled.render(**copy.deepcopy(variables))
    except jinja2.exceptions.TemplateSyntaxError as error:
        return "error", f"syntax line {error.lineno}: {error.message}"
    except Exception as error:  # any failure of a template is a golden
        return "error", f"{type(error).__name__}: {error}"


def conversations(count=50, seed=11):
    """Seeded conversations: plain chats, system texts, content parts, reasoning, tool loops, parallel calls."""
    pick = random.Random(seed)

    def call(number):
        arguments = pick.choice(ARGUMENTS)
        return {"id": f"call_{number}", "type": "function", "function": {
            "name": "search" if "query" in arguments else "get_weather", "arguments": arguments}}

    out = []
    for number in range(count):
        messages, tools = [], pick.random() < 0.6
        if pick.random() < 0.5:
            messages.append({"role": "system", "content": "Be brief. " + pick.choice(SAID)})
        for _ in range(pick.randint(1, 3)):
            messages.append({"role": "user", "content": pick.choice(SAID)})
            if tools and pick.random() < 0.6:
                for step in range(pick.randint(1, 2)):
                    calls = [call(step * 10 + i) for i in range(pick.randint(1, 2))]
                    said = {"role": "assistant", "content": pick.choice(["", "Let me look."]), "tool_calls": calls}
                    if pick.random() < 0.5:
                        said["reasoning_content"] = pick.choice(["I should call.", "  think\n twice \n"])
                    messages.append(said)
                    messages += [{"role": "tool", "tool_call_id": c["id"], "content": pick.choice(
                        ["{\"t\": 21.5}", "sunny ☀", "<error>"])} for c in calls]
            if pick.random() < 0.7:
                answer = {"role": "assistant", "content": pick.choice(SAID)}
                kind = pick.random()
                if kind < 0.3:
                    answer["reasoning_content"] = "Because."
                elif kind < 0.5:
                    answer["content"] = "<think>\ninline thought\n</think>\n\n" + answer["content"]
                messages.append(answer)
        variables = {"messages": messages, "add_generation_prompt": pick.random() < 0.8, "bos_token": "<BOS>"}
        if tools:
            variables["tools"] = TOOLS[: pick.randint(1, 2)]
        if pick.random() < 0.4:
            variables["enable_thinking"] = variables["thinking"] = pick.random() < 0.5
        if pick.random() < 0.3:
            variables["clear_thinking"] = pick.random() < 0.5
        out.append((f"conversation {number}", variables))
    return out


def special_conversations():
    """Histories that single out one rule each: reasoning kept and dropped, content parts, argument forms."""
    user, again = {"role": "user", "content": "U"}, {"role": "user", "content": "next"}
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": {"b": 2, "a": "x"}}}
    tool = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    out = []
    for field in ("reasoning_content", "reasoning"):
        said = {"role": "assistant", "content": "", field: "R1", "tool_calls": [call]}
        for clear in (None, True, False):
            extra = {} if clear is None else {"clear_thinking": clear}
            out.append((f"{field} inside a tool loop, clear_thinking {clear}",
                        {"messages": [user, said, tool], "add_generation_prompt": True, "bos_token": "", **extra}))
            out.append((f"{field} after a new user turn, clear_thinking {clear}",
                        {"messages": [user, said, tool, {"role": "assistant", "content": "A"}, again],
                         "add_generation_prompt": True, "bos_token": "", **extra}))
    parts = [{"type": "text", "text": "part 1"}, {"type": "text", "text": "part 2"}]
    out.append(("content parts", {"messages": [{"role": "user", "content": parts}], "add_generation_prompt": True, "bos_token": ""}))
    out.append(("content is null", {"messages": [user, {"role": "assistant", "content": None, "tool_calls": [call]}, tool],
                                    "add_generation_prompt": True, "bos_token": ""}))
    out.append(("unknown role", {"messages": [{"role": "critic", "content": "x"}], "add_generation_prompt": True, "bos_token": ""}))
    out.append(("golden of the GLM chain", {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello there"},
                {"role": "user", "content": "bye"}], "add_generation_prompt": True, "bos_token": ""}))
    return out


def call_forms(variables):
    """The conversation as a template may want an assistant's calls, in the order in which Baton tries."""
    for as_text, null_content in ((False, False), (True, False), (False, True), (True, True)):
        formed = copy.deepcopy(variables)
        for message in formed["messages"]:
            calls = message.get("tool_calls") or []
            for call in calls if as_text else []:
                call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
            if null_content and calls and not message["content"]:
                message["content"] = None
        for name, other in (("enable_thinking", "thinking"), ("thinking", "enable_thinking")):
            if name in formed:
                formed.setdefault(other, formed[name])
        formed.setdefault("tools", None)  # as transformers passes it
        yield formed


def form_of(template):
    """Which of call_forms shows a call: its index."""
    call = {"id": "call00001", "type": "function", "function": {"name": "some_function", "arguments": {"key": "some value"}}}
    probe = {"messages": [{"role": "user", "content": "question"}, {"role": "assistant", "content": "", "tool_calls": [call]},
                          {"role": "tool", "tool_call_id": "call00001", "name": "some_function", "content": "result"}],
             "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
             "add_generation_prompt": True, "bos_token": ""}
    shown = [index for index, formed in enumerate(call_forms(probe))
             for kind, text in [render(template, formed)]
             if kind == "expected" and "some_function" in text and "some value" in text]
    return shown[0] if shown else 0


def line(value):
    return json.dumps(value, ensure_ascii=False)


def write_group(path, about, snippets, variables):
    """One snippet per line: {"template", "expected" | "error"}; all use the same variables."""
    rows = [line({"template": template, **dict([render(template, variables)])}) for template, _ in snippets]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"about": {line(about)},\n"now": "{NOW.isoformat()}",\n"variables": {line(variables)},\n"cases": [\n')
        file.write(",\n".join(rows) + "]}\n")
    return len(rows)


def write_families(path, about, templates, chats):
    """Every conversation through every template: {"name", "variables", "rendered": {family: {"expected" | "error"}}}."""
    forms = {family: form_of(template) for family, template in templates.items()}
    rows = [line({"name": name, "variables": variables, "rendered": {
        family: dict([render(template, list(call_forms(variables))[forms[family]])])
        for family, template in templates.items()}}) for name, variables in chats]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"about": {line(about)},\n"now": "{NOW.isoformat()}",\n"templates": {line(templates)},\n"cases": [\n')
        file.write(",\n".join(rows) + "]}\n")
    return len(rows) * len(templates)


def write_tool_arguments(path, about, template):
    """Histories as clients send them: arguments as a JSON string; null "expected" marks what is no JSON object."""
    rows = []
    for text in ('{"b":2,"a":"x"}', '{ "b" : 2, "a" : "x" }', '{"z": {"y": [1, 2.50, "é\\u00e9"]}, "n": null}', "{}", "",
                 '{"big": 12345678901234567890, "f": 1.0, "e": 1e2}', "not json", "[1]", '"text"', "{"):
        def messages(arguments):
            return [{"role": "user", "content": "U"}, {"role": "assistant", "content": "", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "ok"}]
        try:
            parsed = json.loads(text) if text else {}
        except ValueError:
            parsed = None
        expected = render(template, {"messages": messages(parsed)})[1] if isinstance(parsed, dict) else None
        rows.append(line({"messages": messages(text), "expected": expected}))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"about": {line(about)},\n"template": {line(template)},\n"cases": [\n' + ",\n".join(rows) + "]}\n")
    return len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(HERE, "..", "..", "testdata"))
    parser.add_argument("--check", metavar="DIR")
    options = parser.parse_args()
    if options.check:
        templates = {}
        for name in sorted(os.listdir(options.check)):
            if name.endswith(".jinja"):
                with open(os.path.join(options.check, name), encoding="utf-8") as file:
                    templates[name.removesuffix(".jinja")] = file.read()
        print(write_families(options.out, "", templates, special_conversations() + conversations()), "cases")
        return
    folder = os.path.join(options.out, "chat_templates")
    os.makedirs(folder, exist_ok=True)
    about = (f"made by tools/oracle/make_chat_templates.py with jinja2 {jinja2.__version__} in the environment of "
             f"transformers {transformers.__version__}; a case has either expected text or the error Python reports "
             "(the wording is not part of the contract)")
    total = sum(write_group(os.path.join(folder, f"{group}.json"), about, snippets, snippets[0][1])
                for group, snippets in GROUPS.items())
    templates = {}
    for name in ("tiny", "multiline", "turns", "im", "parameters", "text_calls"):
        with open(os.path.join(HERE, "templates", f"{name}.jinja"), encoding="utf-8") as file:
            templates[name] = file.read()
    total += write_families(os.path.join(folder, "conversations.json"), about, templates,
                            special_conversations() + conversations())
    total += write_tool_arguments(os.path.join(folder, "tool_arguments.json"), about, templates["tiny"])
    shutil.copy(os.path.join(HERE, "templates", "tiny.jinja"),
                os.path.join(options.out, "tiny-tokenizer", "chat_template.jinja"))
    print(f"{total} cases in {len(os.listdir(folder))} files")


if __name__ == "__main__":
    main()
