"""One review by the project-management agent, by hand: `python -m examples.pm_agent --help`."""

from __future__ import annotations

import argparse
import json

from examples.house import connected, run
from examples.pm_agent import PmAgent


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.pm_agent")
    parser.add_argument("--user", default="usr-ana", help="as the product authenticated them")
    parser.add_argument("--agent", default="agt-planner", help="the agent that acts for the user")
    parser.add_argument("--workspace", default="ws-delivery")
    parser.add_argument("--project", default="prj-atlas")
    parser.add_argument("--table", default="tbl-tasks")
    given = parser.parse_args()
    headers = {"X-Workspace-Id": given.workspace}
    body = {"projectId": given.project, "tableIds": [given.table]}
    async with connected() as (client, router):
        plan = await PmAgent(client, router, given.agent).review(headers, body, user_id=given.user)
    print(f"{plan.project}: {plan.open_tasks} tasks are open\n\n{plan.state.context_summary}\n")
    print("the tool found", json.dumps(plan.tool_result, ensure_ascii=False))


run(main)
