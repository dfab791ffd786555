"""LangGraph's own bench workloads, written anew after their definitions and sizes (libs/langgraph/bench), on the
installed package. Reads one workload's name a line, answers one JSON line: milliseconds of a whole run, the middle of
several, through the synchronous and through the asynchronous interface. Ends with its input.

Names: fanout:K  react:K  wide_state:ENTRIES:N  wide_dict:ENTRIES:N  sequential:K, each with ":saver" for the
in-memory checkpointer (durability "exit", as there), or with ":saver:sync" for one that keeps every superstep."""

import asyncio
import json
import operator
import random
import string
import sys
import time
import warnings
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Any, Optional
from uuid import uuid4

warnings.filterwarnings("ignore")

import uvloop
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.types import Send
from typing_extensions import TypedDict


def letters(count):
    return random.choices(string.ascii_lowercase, k=count)


class Jokes(TypedDict):
    subjects: list
    jokes: Annotated[list, operator.add]


class Subject(TypedDict):
    subject: str


class Told(TypedDict):
    jokes: list


class Joke(Subject, Told):
    pass


def fanout(count, saver):
    """Each of `count` subjects of 1,000 letters goes through a subgraph of its own: edit, generate, bump ten times."""

    def graph(is_async):
        def node(work):
            if not is_async:
                return work

            async def work_async(state):
                return work(state)

            return work_async

        inner = StateGraph(Joke, input_schema=Subject, output_schema=Told)
        inner.add_node("edit", node(lambda s: {"subject": f"{s['subject']} - hohoho"}))
        inner.add_node("generate", node(lambda s: {"jokes": [f"Joke about {s['subject']}"]}))
        inner.add_node("bump", node(lambda s: {"jokes": [s["jokes"][0] + " a"]}))
        inner.add_edge(START, "edit")
        inner.add_edge("edit", "generate")
        inner.add_edge("generate", "bump")
        inner.add_edge("generate", END)
        bumped = node(lambda s: END if s["jokes"][0].endswith(" a" * 10) else "bump")
        inner.add_conditional_edges("bump", bumped, ["bump", END])
        outer = StateGraph(Jokes)
        outer.add_node("generate_joke", inner.compile())
        spread = node(lambda s: [Send("generate_joke", {"subject": one}) for one in s["subjects"]])
        outer.add_conditional_edges(START, spread, ["generate_joke"])
        outer.add_edge("generate_joke", END)
        return outer.compile(checkpointer=saver())

    return graph(False), graph(True), {"subjects": [letters(1000) for _ in range(count)]}


class ScriptedModel(FakeMessagesListChatModel):
    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_: Any):
        answer = self.responses[self.i].copy()
        self.i = (self.i + 1) % len(self.responses)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def react(rounds, saver):
    """A model that calls one tool `rounds` times (3,600 letters in, 36,000 out), then answers."""

    def graph():
        tool = StructuredTool.from_function(lambda query: f"result for query: {query}" * 10, name=str(uuid4()), description="")

        def call():
            return {"id": str(uuid4()), "name": tool.name, "args": {"query": str(uuid4()) * 100}}

        answers = [AIMessage(content="", tool_calls=[call()], id=str(uuid4())) for _ in range(rounds)]
        answers.append(AIMessage(content="answer" * 100, id=str(uuid4())))
        return create_react_agent(ScriptedModel(responses=answers), [tool], checkpointer=saver())

    return graph(), graph(), {"messages": [HumanMessage("hi?")]}


def later(old, new):
    return old if new is None else new


def truthy(old, new):
    return new or old


def newest(_, new):
    return new


# Fifteen fields with the reducers of the original: appended lists, merged dictionaries, guarded and plain last values.
WIDE = {
    "messages": Annotated[list, operator.add],
    "triggers": Annotated[list, operator.add],
    "medium": Annotated[str, truthy],
    "reply": Annotated[Optional[dict], newest],
    "issue": Annotated[Optional[dict], truthy],
    "rules": Optional[list],
    "docs": Optional[list],
    "categories": Annotated[list, operator.add],
    "responses": Annotated[list, operator.add],
    "user": Annotated[Optional[dict], later],
    "crm": Annotated[Optional[dict], later],
    "mail_thread": Annotated[Optional[str], later],
    "participants": Annotated[dict, operator.or_],
    "bot": Optional[str],
    "assignees": Annotated[dict, operator.or_],
}
LISTS = {"messages", "triggers", "categories", "responses", "docs", "rules"}
DICTS = {"user", "crm", "participants", "assignees", "reply", "issue"}


@dataclass(kw_only=True)
class WideState:
    messages: WIDE["messages"] = field(default_factory=list)
    triggers: WIDE["triggers"] = field(default_factory=list)
    medium: WIDE["medium"] = "email"
    reply: WIDE["reply"] = None
    issue: WIDE["issue"] = None
    rules: WIDE["rules"] = None
    docs: WIDE["docs"] = None
    categories: WIDE["categories"] = field(default_factory=list)
    responses: WIDE["responses"] = field(default_factory=list)
    user: WIDE["user"] = None
    crm: WIDE["crm"] = None
    mail_thread: WIDE["mail_thread"] = None
    participants: WIDE["participants"] = field(default_factory=dict)
    bot: WIDE["bot"] = None
    assignees: WIDE["assignees"] = field(default_factory=dict)


WideDict = TypedDict("WideDict", WIDE)


def wide(schema, entries, size, saver):
    """Six nodes, two of them in parallel, hand growing lists of large values on until there are `size` messages."""
    read = (lambda s, name: s.get(name)) if schema is WideDict else getattr

    def copy(source, targets):
        def node(state):
            value = read(state, source)
            if isinstance(value, str):
                value = {value: value}
            last = value[-1] if isinstance(value, list) else value
            every = value if isinstance(value, list) else [value]
            made = {}
            for name in targets:
                if name in LISTS:
                    made[name] = every
                elif name in DICTS:
                    made[name] = last
                else:
                    made[name] = "".join(random.choice(string.ascii_lowercase) for _ in range(size))
            return made

        return node

    def graph():
        built = StateGraph(schema)
        built.add_node("one", copy("messages", ["triggers", "medium"]))
        built.add_node("two", copy("triggers", ["reply", "issue"]))
        built.add_node("three", copy("reply", ["rules"]))
        built.add_node("four", copy("triggers", ["categories", "responses", "docs"]))
        five = ["user", "crm", "mail_thread", "participants", "bot", "assignees"]
        built.add_node("five", copy("categories", five))
        built.add_node("six", copy("responses", ["messages"]))
        built.add_edge(START, "one")
        built.add_edge("one", "two")
        built.add_edge("two", "three")
        built.add_edge("two", "four")
        built.add_edge(["three", "four"], "five")
        built.add_edge("five", "six")
        built.add_conditional_edges("six", lambda s: END if len(read(s, "messages")) > size else "one", ["one", END])
        return built.compile(checkpointer=saver())

    rows, columns = {25: (5, 5), 15: (3, 5), 9: (3, 3)}[entries]
    value = ["hi?" * 10, True, 1, 6327816386138, None] * 5
    message = {str(i) * 10: {str(j) * 10: list(value) for j in range(columns)} for i in range(rows)}
    return graph(), graph(), {"messages": [message]}


def sequential(count, saver):
    """`count` nodes in a row that do nothing."""

    def graph(is_async):
        async def nothing_async(state: MessagesState):
            return None

        def nothing(state: MessagesState):
            return None

        built = StateGraph(MessagesState)
        before = START
        for i in range(count):
            built.add_node(f"node_{i}", nothing_async if is_async else nothing)
            built.add_edge(before, f"node_{i}")
            before = f"node_{i}"
        built.add_edge(before, END)
        return built.compile(checkpointer=saver())

    return graph(False), graph(True), {"messages": []}


def workload(name):
    kind, *sizes = name.split(":")
    durability = "exit"
    if sizes[-1] == "sync":
        durability = sizes.pop()
    saver = (lambda: None)
    if sizes[-1] == "saver":
        saver, sizes = InMemorySaver, sizes[:-1]
    sizes = [int(size) for size in sizes]
    if kind in ("wide_state", "wide_dict"):
        schema = WideState if kind == "wide_state" else WideDict
        return *wide(schema, *sizes, saver), durability
    return *{"fanout": fanout, "react": react, "sequential": sequential}[kind](*sizes, saver), durability


def settings():
    return {"configurable": {"thread_id": str(uuid4())}, "recursion_limit": 1_000_000_000}


def once(graph, start, durability):
    begun = time.perf_counter()
    for _ in graph.stream(start, settings(), durability=durability):
        pass
    return time.perf_counter() - begun


async def once_async(graph, start, durability):
    begun = time.perf_counter()
    async for _ in graph.astream(start, settings(), durability=durability):
        pass
    return time.perf_counter() - begun


def repeated(run):
    """Milliseconds: the middle of at least three runs, of more while they are short; the first warms up."""
    first = run()
    return 1000 * median(run() for _ in range(max(3, min(20, int(0.5 / max(first, 0.001))))))


def main():
    for line in sys.stdin:
        graph, graph_async, start, durability = workload(line.strip())
        in_order = repeated(lambda: once(graph, start, durability))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            concurrent = repeated(lambda: runner.run(once_async(graph_async, start, durability)))
        print(json.dumps({"name": line.strip(), "sync_ms": in_order, "async_ms": concurrent}), flush=True)


main()
