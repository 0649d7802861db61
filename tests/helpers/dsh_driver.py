"""Drives one dsh runtime: a job as JSON on stdin, what came of it as JSON on stdout.

It runs under the Python of the runtime's own environment and imports nothing of this project. The job:

    {home, baseUrl, cwd, key, session, prompts: [str], turns: int, maxTokens: int | null, patches: [path],
     until: path | null}

Each prompt is sent when the session is idle. Behind the last one it waits until the session has ended ``turns`` turns
(goals and subagents go on by themselves), and with ``until`` for that file, so that a plugin among ``patches`` can do
its part. The answer is one object a prompt: ``[{response, reason}]``. A job of ``home`` alone starts the runtime and
ends it.
"""

import inspect
import json
import sys
import time
from pathlib import Path

from deepseek_harness import DeepSeekHarness, DeepSeekHarnessConfig


def options(job):
    """The options that this version of the SDK knows. Before 0.1.2 it had no home, but a folder for logs."""
    known = inspect.signature(DeepSeekHarnessConfig).parameters
    wanted = {
        "cwd": job.get("cwd"),
        "dsh_home": job["home"],
        "session_root": str(Path(job["home"], "sessions")),
        "base_url": job.get("baseUrl"),
        "api_key": job.get("key"),
        "provider": "deepseek-official",
        "model": "deepseek-v4-flash",
        "max_tokens": job.get("maxTokens"),
        "patches": tuple(job.get("patches", ())),
        "env": {"DSH_HOME": job["home"], "DSH_PERMISSION_MODE": "danger-full-access"},
        "initialize_timeout_seconds": 90,
        "shutdown_timeout_seconds": 20,
    }
    return {name: value for name, value in wanted.items() if name in known}


def wait_for_turns(told, session, turns):
    """Return when so many turns of the session have ended, and it is idle."""
    ended, idle = 0, True
    while ended < turns or not idle:
        notice = told.next()
        if notice.payload.get("sessionId") != session:
            continue
        if notice.method == "session.status":
            idle = notice.payload.get("status") == "idle"
        elif notice.method == "session.event":
            ended += notice.payload["event"]["type"] == "turn/end"


def main():
    job = json.load(sys.stdin)
    with DeepSeekHarness(**options(job)) as harness:
        json.dump(talk(harness, job) if "session" in job else [], sys.stdout)


def talk(harness, job):
    """Send the prompts, and wait for what else is to come."""
    turns = []
    with harness.client.subscribe_session_notifications(job["session"]) as told:
        for prompt in job["prompts"]:
            result = harness.run(prompt, session_id=job["session"])
            turns.append({"response": result.final_response, "reason": result.finish_reason})
        wait_for_turns(told, job["session"], job["turns"])
        while job["until"] is not None and not Path(job["until"]).exists():
            time.sleep(0.02)
    return turns


main()
