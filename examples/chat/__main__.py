"""One message of the chat, by hand: `python -m examples.chat --help`."""

from __future__ import annotations

import argparse
import json

from examples.chat import Chat
from examples.house import connected, run


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.chat")
    parser.add_argument("message", nargs="?", default="Why is this project late?")
    parser.add_argument("--user", default="usr-ana", help="as the product authenticated them")
    parser.add_argument("--workspace", default="ws-delivery")
    parser.add_argument("--table", default="tbl-tasks")
    parser.add_argument("--project", default="prj-atlas", help="'this project'; '' for none")
    parser.add_argument("--conversation", default="cnv-launch", help="'' for none")
    given = parser.parse_args()
    headers = {"X-Workspace-Id": given.workspace, "X-Session-Id": "example-chat"}
    body = {
        "tableIds": [given.table],
        "projectId": given.project or None,
        "conversationId": given.conversation or None,
        "message": given.message,
    }
    async with connected() as (client, router):
        reply = await Chat(client, router).post(headers, body, user_id=given.user)
    print(f"from {reply.source}, context {reply.context_id}\n\n{reply.text}\n")
    print("the tool found", json.dumps(reply.tool_result, ensure_ascii=False))


run(main)
