"""Seeded generator of tool-call dialogues and short chats in baton-mini's own chat template.

Also the source of the held-back tool prompts of tools/eval/toolcalls: names and values of a
held-back dialogue come from the same families, drawn with another seed, and tool names whose
checksum falls in the held-back tenth never occur in training.
"""

import json
import random
import zlib

VERBS = ("get set find list create delete update search open close read write send fetch move copy check count start stop "
         "convert translate book cancel schedule compute plot rename merge split upload download lock unlock").split()
NOUNS = ("weather file user message ticket invoice order flight hotel note event task report image page branch commit issue "
         "price stock route sensor light door song playlist contact calendar server log metric table row backup recipe "
         "package device camera session token job queue index cache model dataset").split()
STRING_PARAMS = ("city path name query title text recipient language unit pattern message label description author "
                 "destination origin format command url branch topic status currency").split()
INT_PARAMS = "limit count page days size port priority offset year timeout level".split()
FLOAT_PARAMS = "ratio amount latitude threshold price weight".split()
BOOL_PARAMS = "recursive force verbose dry_run urgent enabled".split()
WORDS = ("amber falcon river stone cedar meadow harbor lantern copper violet thunder orchid pepper canyon glacier willow "
         "marble saffron ember comet juniper velvet quartz raven tulip maple cobalt breeze hazel onyx pebble summit "
         "alpha beta delta report final draft summary update meeting budget design review release plan test data "
         "error parse value index buffer stream input output queue worker node graph").split()
PLACES = ("Paris London Berlin Madrid Rome Vienna Oslo Lisbon Tokyo Kyoto Cairo Lima Quito Toronto Chicago Denver Seattle "
          "Zürich Kraków Łódź São_Paulo Málaga Reykjavík Göteborg Besançon 北京 東京 Москва Αθήνα Saint-Étienne").split()
EXTENSIONS = "py txt md json cpp h rs csv yaml log".split()
CODE = ('if (a < b) return "x";', "x <- c(1, 2)", 'print("hello")', "a && b || !c", "<div class=\"box\">hi</div>",
        "SELECT * FROM t WHERE n > 5", "for i in range(10):", "s = 'it''s'", "List<Map<String, Int>>", "echo \"$HOME\"",
        "a <= b && c >= d", "f(x) = x^2 + 1", "<b>bold</b> & <i>it</i>", "grep -n \"TODO\" *.py", "#include <vector>",
        "it's 5 o'clock", "100% sure?", "C:\\temp\\new", "naïve café", "→ next ≤ 3", "日本語 テスト", "ok 🙂", "{\"a\": 1}", "[1, 2, 3]")


def is_held_back_tool(name):
    return zlib.crc32(name.encode()) % 10 == 0


def string_value(rng, param):
    kind = rng.random()
    if param in ("city", "destination", "origin"):
        return rng.choice(PLACES).replace("_", " ")
    if param == "path" or (param in ("pattern", "url") and kind < 0.4):
        depth = rng.randint(1, 3)
        return "/".join(rng.choice(WORDS) for _ in range(depth)) + "." + rng.choice(EXTENSIONS)
    if kind < 0.45:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4)))
    if kind < 0.70:
        code = rng.choice(CODE)
        return code if rng.random() < 0.5 else code + " " + rng.choice(WORDS)
    if kind < 0.85:
        return rng.choice(WORDS) + rng.choice("-_.#@") + str(rng.randint(1, 99999))
    return rng.choice(WORDS).capitalize() + rng.choice([": ", ", ", " - "]) + " ".join(
        rng.choice(WORDS) for _ in range(rng.randint(1, 5)))


def nested_value(rng):
    if rng.random() < 0.5:
        return [rng.choice([rng.choice(WORDS), rng.randint(0, 999)]) for _ in range(rng.randint(1, 4))]
    return {rng.choice(WORDS): rng.choice([rng.choice(WORDS), rng.randint(0, 999), True, False, None])
            for _ in range(rng.randint(1, 3))}


def make_tool(rng, held_back):
    while True:
        name = rng.choice(VERBS) + "_" + rng.choice(NOUNS)
        if rng.random() < 0.2:
            name += "_" + rng.choice(NOUNS)
        if is_held_back_tool(name) == held_back:
            break
    properties, kinds = {}, {}
    for _ in range(rng.randint(0, 3) if rng.random() < 0.3 else rng.randint(1, 3)):
        roll = rng.random()
        if roll < 0.55:
            param, schema = rng.choice(STRING_PARAMS), {"type": "string"}
        elif roll < 0.75:
            param, schema = rng.choice(INT_PARAMS), {"type": "integer"}
        elif roll < 0.83:
            param, schema = rng.choice(FLOAT_PARAMS), {"type": "number"}
        elif roll < 0.91:
            param, schema = rng.choice(BOOL_PARAMS), {"type": "boolean"}
        else:
            param = rng.choice(["filters", "options", "tags", "items"])
            schema = {"type": "array"} if param in ("tags", "items") else {"type": "object"}
        properties[param], kinds[param] = schema, schema["type"]
    verb, noun = name.split("_")[0], " ".join(name.split("_")[1:])
    function = {"name": name, "description": f"{verb.capitalize()} the {noun}.",
                "parameters": {"type": "object", "properties": properties, "required": list(properties)}}
    return {"type": "function", "function": function}, kinds


def argument(rng, param, kind):
    if kind == "string":
        return string_value(rng, param)
    if kind == "integer":
        return rng.randint(0, 10 ** rng.randint(1, 5))
    if kind == "number":
        return rng.choice([round(rng.uniform(-100, 1000), 2), round(rng.random(), 3)])
    if kind == "boolean":
        return rng.random() < 0.5
    value = nested_value(rng)
    if kind == "array" and isinstance(value, dict):
        return list(value)
    if kind == "object" and isinstance(value, list):
        return {rng.choice(WORDS): value}
    return value


def shown(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def request(rng, name, arguments):
    """A user turn that asks for the call; every value is written out."""
    spoken = name if rng.random() < 0.6 else name.replace("_", " ")
    opening = rng.choice(["Please call {}", "Use {}", "Run {}", "Call {}", "I need you to {}", "Can you {}", "{}"]).format(spoken)
    if not arguments:
        return opening + rng.choice([".", " now.", "!", ""])
    style = rng.random()
    if style < 0.35 and not any('"' in shown(v) for v in arguments.values()):
        parts = [f'{k} "{v}"' if isinstance(v, str) else f"{k} {shown(v)}" for k, v in arguments.items()]
        return opening + " with " + " and ".join(parts) + rng.choice([".", ""])
    if style < 0.6:
        return opening + " with these arguments:\n" + "\n".join(f"- {k}: {shown(v)}" for k, v in arguments.items())
    if style < 0.8:
        return opening + ":\n" + "\n".join(f"{k} = {shown(v)}" for k, v in arguments.items())
    return opening + "\n" + "\n".join(f"{k}: {shown(v)}" for k, v in arguments.items())


def tool_result(rng):
    key = rng.choice(["result", "value", "status", "id", "answer", "total"])
    value = rng.choice([rng.randint(0, 99999), rng.choice(WORDS) + " " + rng.choice(WORDS), round(rng.uniform(0, 100), 1)])
    return key, value


def single_tool(rng, held_back=False):
    """(tools, user text, name, arguments): one request that one of one to four tools answers."""
    tools, seen = [], set()
    for _ in range(rng.choice([1, 1, 2, 3, 4])):
        tool, kinds = make_tool(rng, held_back)
        if tool["function"]["name"] not in seen:
            seen.add(tool["function"]["name"])
            tools.append((tool, kinds))
    tool, kinds = rng.choice(tools)
    arguments = {p: argument(rng, p, k) for p, k in kinds.items()}
    name = tool["function"]["name"]
    return [t for t, _ in tools], request(rng, name, arguments), name, arguments


CHATS = [
    ("Hello", "Hello! How can I help?"), ("hi", "Hello! How can I help?"), ("Thanks", "You are welcome."),
    ("thank you!", "You are welcome."), ("Who are you?", "I am baton-mini, a small model that serves as a test for Baton."),
    ("What can you do?", "I can look things up in the text you give me and call the tools you offer."),
    ("What is your name?", "I am baton-mini."), ("Goodbye", "Goodbye!"), ("bye", "Goodbye!"), ("ok", "Good."),
    ("Good morning", "Good morning! How can I help?"), ("How are you?", "I am well, thank you. How can I help?"),
    ("Are you a large model?", "No. I have about 18 million parameters."), ("Help", "Give me a text and ask about it, or offer me tools."),
]


def tag_call(name, arguments):
    body = "".join(f"<arg_key>{k}</arg_key><arg_value>{shown(v)}</arg_value>" for k, v in arguments.items())
    return f"<tool_call>{name}{body}</tool_call>"


def system_of(tools):
    lines = "".join(json.dumps(t["function"], ensure_ascii=False) + "\n" for t in tools)
    return ("<|system|># Tools\n\nFunctions you may call, one JSON schema per line:\n" + lines +
            "Call one as: <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>")


def dialogue(rng):
    """One rendered conversation as a list of (text, is_answer) parts, exactly as the chat template
    renders it; answers are what the assistant must produce, its closing role token included."""
    parts = [("[gMASK]<sop>", False)]
    tools, asked = [], None
    if rng.random() < 0.85:
        tools, *asked = single_tool(rng)
        parts.append((system_of(tools), False))
    if rng.random() < 0.15:
        parts.append(("<|system|>" + rng.choice(["Be brief.", "You are a helpful assistant.", "Answer shortly."]), False))
    for turn in range(rng.choice([1, 1, 2, 3])):
        thinking = rng.random() < 0.2
        if asked is None or (turn and rng.random() < 0.3) or rng.random() < 0.06:
            user, answer = rng.choice(CHATS)
            thought = "<think>The user is talking to me.</think>" if thinking else "</think>"
            opener, rest = ("<think>", thought[7:]) if thinking else ("</think>", "")
            parts += [(f"<|user|>{user}<|assistant|>{opener}", False), (rest + answer + "<|user|>", True)]
            parts.append(("", False))
            continue
        user, name, arguments = asked
        if turn:
            tool = rng.choice(tools)["function"]
            name = tool["name"]
            arguments = {p: argument(rng, p, s["type"]) for p, s in tool["parameters"]["properties"].items()}
            user = request(rng, name, arguments)
        opener, rest = ("<think>", f"I should call {name}.</think>") if thinking else ("</think>", "")
        parts += [(f"<|user|>{user}<|assistant|>{opener}", False),
                  (rest + tag_call(name, arguments) + "<|observation|>", True)]
        key, value = tool_result(rng)
        opener, rest = ("<think>", "I have the result.</think>") if thinking else ("</think>", "")
        parts += [(f"<tool_response>{json.dumps({key: value}, ensure_ascii=False)}</tool_response><|assistant|>{opener}", False),
                  (rest + f"The {key} is {value}." + "<|user|>", True)]
    # An answer ends with the role token of the next turn; that turn must not repeat it.
    merged = []
    for text, is_answer in parts:
        if merged and merged[-1][1] and text.startswith("<|user|>"):
            text = text[len("<|user|>"):]
        if text:
            merged.append((text, is_answer))
    return merged


def generate(tokenizer, count, seed):
    """Token ids (list of ints) and answer flags (list of bools) of `count` dialogues, one stream,
    and the start offset of every dialogue."""
    rng = random.Random(seed)
    ids, flags, starts = [], [], []
    batch = [dialogue(rng) for _ in range(count)]
    texts = [text for parts in batch for text, _ in parts]
    encoded = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
    for parts in batch:
        starts.append(len(ids))
        for _, is_answer in parts:
            piece = next(encoded).ids
            ids += piece
            flags += [is_answer] * len(piece)
    return ids, flags, starts
