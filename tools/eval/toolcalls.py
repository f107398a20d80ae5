"""Tool calls against an OpenAI-compatible server: right name, right arguments, greedy, unconstrained.

    toolcalls.py --url http://127.0.0.1:8000 --prompts 200

Each prompt offers one to four held-back tools and asks for one call whose argument values (strings with
quotes, `<`, other scripts, numbers, nested JSON) stand in the request. A call counts when it is the only one, its
name is right and its arguments are equal as JSON values.
"""

import argparse
import json
import pathlib
import random
import sys
import time

import endpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "train"))
import dialogues  # noqa: E402


def judge(message, name, arguments):
    """'' if the message is exactly the call asked for, else what is wrong."""
    calls = message.get("tool_calls") or []
    if len(calls) != 1:
        return f"{len(calls)} calls"
    function = calls[0]["function"]
    if function["name"] != name:
        return f"name {function['name']}"
    try:
        got = json.loads(function["arguments"] or "{}")
    except json.JSONDecodeError:
        return "arguments are not JSON"
    return "" if got == arguments else "arguments differ"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    endpoint.add_arguments(parser)
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--fail-below", type=float, help="exit with 1 if fewer are right")
    args = parser.parse_args()
    server, began = endpoint.connect(args), time.time()
    rng, right, wrong, reasons = random.Random(args.seed + 98), 0, [], {}
    for _ in range(args.prompts):
        tools, user, name, arguments = dialogues.single_tool(rng, held_back=True)
        message, _ = server.chat([{"role": "user", "content": user}], 160, tools)
        problem = judge(message, name, arguments)
        right += not problem
        if problem:
            reasons[problem.split(" ")[0]] = reasons.get(problem.split(" ")[0], 0) + 1
            wrong.append({"user": user, "name": name, "arguments": arguments, "problem": problem, "got": message})
    share = right / args.prompts
    print(f"tool calls right: {right} of {args.prompts} ({share:.3f}); wrong: {reasons}")
    endpoint.finish(args, "toolcalls", server, {"right": share, "prompts": args.prompts, "wrong": wrong[:20]}, began)
    if args.fail_below is not None and share < args.fail_below:
        sys.exit(f"tool calls below {args.fail_below}")


if __name__ == "__main__":
    main()
