"""A LangGraph graph as one finds it in another project. Nothing in it knows of agents, networks or Longhaul.

It answers questions about the opening hours of a library, and remembers within a conversation which branch was meant.
Its nodes are plain functions, so that the example runs without a key; a model would stand where `decide` stands.
"""

from typing import Annotated, Optional, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

HOURS = {"main": "9–20", "north": "10–18", "harbour": "12–17"}


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    branch: Optional[str]


def decide(state: State) -> dict:
    """Which branch is meant; what was said before in this conversation counts."""
    text = str(state["messages"][-1].content).lower()
    return {"branch": next((name for name in HOURS if name in text), state.get("branch"))}


def look_up(state: State) -> dict:
    return {"messages": [AIMessage(f"The {state['branch']} branch is open {HOURS[state['branch']]}.")]}


def ask_back(state: State) -> dict:
    return {"messages": [AIMessage(f"Which branch: {', '.join(HOURS)}?")]}


def build():
    graph = StateGraph(State)
    graph.add_node("decide", decide)
    graph.add_node("look_up", look_up)
    graph.add_node("ask_back", ask_back)
    graph.add_edge(START, "decide")
    graph.add_conditional_edges("decide", lambda state: "look_up" if state.get("branch") else "ask_back")
    graph.add_edge("look_up", END)
    graph.add_edge("ask_back", END)
    return graph.compile(checkpointer=InMemorySaver())


graph = build()
