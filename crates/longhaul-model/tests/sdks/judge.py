"""The official Python clients of Anthropic and OpenAI against a cassette server: they know how an answer has to look.

    judge.py ORIGIN KEY      ORIGIN is http://127.0.0.1:PORT, the story is story.toml beside this file

Ends with 0 and one line per protocol, or with the first thing that is wrong.
"""

import json
import os
import sys

import anthropic
import openai
from pydantic import BaseModel

ORIGIN, KEY = sys.argv[1], sys.argv[2]
MODEL = "cassette-judge"
RESULTS = [["<h1>你好</h1>", "no such file"], ["three"]]
TEXT = "I look at both files, 第一个 first."
CALLS = [{"path": "页.html", "lines": [1, 20]}, {"path": 'b "quoted" \\ name.txt'}]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}}}}
# Long enough to be cached.
SYSTEM = f"Be careful ({os.getpid()}). " + "Every rule of this house is written down once. " * 200


class Person(BaseModel):
    name: str
    age: int


def same(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def refused(kind, call, *parts):
    try:
        call()
    except kind as error:
        said = f"{error} {getattr(error, 'body', None)}"
        for part in parts:
            assert part in said, f"{part!r} is not in {said}"
        return error
    raise AssertionError(f"not refused: {parts}")


# ---- Anthropic Messages ----------------------------------------------------------------------------------------------


def messages(stream):
    client = anthropic.Anthropic(base_url=ORIGIN, api_key=KEY)
    tools = [{"name": "read_file", "description": "reads", "input_schema": SCHEMA}]
    system = [{"type": "text", "text": SYSTEM + ("streamed" if stream else "whole"), "cache_control": {"type": "ephemeral"}}]
    talk = [{"role": "user", "content": "look at 页.html"}]

    def ask(thinking={"type": "enabled", "budget_tokens": 1024}):
        talk[-1]["content"] = mark(talk[-1]["content"])
        given = dict(model=MODEL, max_tokens=4096, system=system, messages=talk, tools=tools, thinking=thinking)
        if not stream:
            return client.messages.create(**given)
        with client.messages.stream(**given) as events:
            texts = [event.text for event in events if event.type == "text"]
            message = events.get_final_message()
        same("".join(texts), "".join(block.text for block in message.content if block.type == "text"))
        return message

    def mark(content):
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for message in talk[:-1]:
            for block in message["content"]:
                block.pop("cache_control", None) if isinstance(block, dict) else None
        return blocks[:-1] + [{**blocks[-1], "cache_control": {"type": "ephemeral"}}]

    first = ask()
    same([block.type for block in first.content], ["thinking", "text", "tool_use", "tool_use"])
    same(first.content[0].thinking, "Two files are named; I read both before I say anything.")
    same(first.content[1].text, TEXT)
    same([block.input for block in first.content[2:]], CALLS)
    same((first.stop_reason, first.model, first.role), ("tool_use", MODEL, "assistant"))
    usage = first.usage
    assert usage.cache_creation_input_tokens > 1000 and usage.cache_read_input_tokens == 0, usage
    assert usage.output_tokens > 30, usage
    talk.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]})
    results = zip(first.content[2:], RESULTS[0])
    talk.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in results]})

    # Thinking comes back byte for byte, or the service refuses.
    kept = talk[1]["content"]
    talk[1]["content"] = kept[1:]
    refused(anthropic.BadRequestError, ask, "Expected `thinking`", "invalid_request_error")
    talk[1]["content"] = [{**kept[0], "thinking": "I read both."}] + kept[1:]
    refused(anthropic.BadRequestError, ask, "cannot be modified")
    talk[1]["content"] = kept
    second = ask()
    same([block.type for block in second.content], ["redacted_thinking", "tool_use"])
    assert second.usage.cache_read_input_tokens > 1000, second.usage
    assert second.usage.cache_creation_input_tokens > 0 and second.usage.input_tokens < 20, second.usage
    talk.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in second.content]})
    talk.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": second.content[1].id, "content": [{"type": "text", "text": "three"}]},
        {"type": "text", "text": "go on"}]})
    third = ask()
    same((third.content[-1].text, third.stop_reason), ("One of the two exists.", "end_turn"))

    talk.pop()
    refused(anthropic.BadRequestError, ask, "without `tool_result` blocks immediately after")
    plain = lambda prompt, **more: client.messages.create(
        model=MODEL, max_tokens=9, messages=[{"role": "user", "content": prompt}], **more)
    same(plain("a long story").stop_reason, "max_tokens")
    same(plain("something forbidden").stop_reason, "refusal")
    same(plain("who are you").content[0].text, "nobody wrote this down")
    refused(anthropic.BadRequestError, lambda: plain([{"type": "text", "text": ""}]), "must be non-empty")
    if not stream:
        same(plain("a busy service").content[0].text, "at last")
        parsed = client.messages.parse(
            model=MODEL, max_tokens=99, messages=[{"role": "user", "content": "Ada as JSON"}], output_format=Person)
        same(parsed.parsed_output, Person(name="Ada Lovelace", age=36))
        counted = client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "four words of text"}])
        assert 4 <= counted.input_tokens <= 20, counted
        same([model.id for model in client.models.list()], [MODEL])
        same(client.models.retrieve("cassette-small").id, "cassette-small")
    once = client.with_options(max_retries=0)
    ask_once = lambda prompt: once.messages.create(
        model=MODEL, max_tokens=9, messages=[{"role": "user", "content": prompt}], stream=stream)
    same(refused(anthropic.APIStatusError, lambda: ask_once("an overloaded service"), "overloaded_error").status_code, 529)
    refused(anthropic.NotFoundError, lambda: once.messages.create(
        model="gpt-0", max_tokens=9, messages=[{"role": "user", "content": "hi"}]), "not_found_error")
    refused(anthropic.AuthenticationError, lambda: anthropic.Anthropic(base_url=ORIGIN, api_key="sk-wrong").messages.create(
        model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "hi"}]), "authentication_error")
    if stream:
        def broken():
            with once.messages.stream(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "a broken line"}]) as events:
                return events.get_final_message()
        refused(Exception, broken)


# ---- OpenAI Chat Completions -----------------------------------------------------------------------------------------


def chat(stream):
    client = openai.OpenAI(base_url=ORIGIN + "/v1", api_key=KEY)
    tools = [{"type": "function", "function": {"name": "read_file", "description": "reads", "parameters": SCHEMA}}]
    talk = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "look at 页.html"}]

    def ask():
        given = dict(model=MODEL, messages=talk, tools=tools)
        if not stream:
            return client.chat.completions.create(**given)
        with client.chat.completions.stream(**given, stream_options={"include_usage": True}) as events:
            texts = [event.delta for event in events if event.type == "content.delta"]
            completion = events.get_final_completion()
        same("".join(texts), completion.choices[0].message.content or "")
        return completion

    cached = []
    for turn, expected in enumerate([("tool_calls", TEXT, CALLS), ("tool_calls", None, [{}]), ("stop", "One of the two exists.", [])]):
        answer = ask()
        choice = answer.choices[0]
        calls = choice.message.tool_calls or []
        same((choice.finish_reason, choice.message.content or None, [json.loads(call.function.arguments) for call in calls]), expected)
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0, answer.usage
        cached.append(answer.usage.prompt_tokens_details.cached_tokens)
        talk.append(choice.message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
        if calls:
            talk[-1]["tool_calls"] = [{"id": call.id, "type": "function", "function": {
                "name": call.function.name, "arguments": call.function.arguments}} for call in calls]
            talk += [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in zip(calls, RESULTS[turn])]
    assert cached[1] >= 1024 and cached[2] >= cached[1] and cached[1] % 128 == 0, cached
    plain = lambda prompt, **more: client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": prompt}], **more).choices[0]
    same(plain("a long story").finish_reason, "length")
    same(plain("something forbidden").finish_reason, "content_filter")
    once = client.with_options(max_retries=0)
    if not stream:
        parsed = client.chat.completions.parse(
            model=MODEL, messages=[{"role": "user", "content": "Ada as JSON"}], response_format=Person)
        same(parsed.choices[0].message.parsed, Person(name="Ada Lovelace", age=36))
        same([model.id for model in client.models.list()], [MODEL])
    refused(openai.BadRequestError, lambda: client.chat.completions.create(
        model=MODEL, messages=talk[:3]), "invalid_request")
    refused(openai.UnprocessableEntityError, lambda: plain("look at 页.html"), "cassette_requirement_unmet", "careful")
    refused(openai.AuthenticationError, lambda: openai.OpenAI(base_url=ORIGIN + "/v1", api_key="sk-wrong").chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hi"}]), "invalid_api_key")
    refused(openai.NotFoundError, lambda: once.chat.completions.create(
        model="gpt-0", messages=[{"role": "user", "content": "hi"}]), "model_not_found")


# ---- OpenAI Responses ------------------------------------------------------------------------------------------------


def responses(stream):
    client = openai.OpenAI(base_url=ORIGIN + "/v1", api_key=KEY)
    tools = [{"type": "function", "name": "read_file", "description": "reads", "parameters": SCHEMA, "strict": False}]
    talk = [{"role": "user", "content": "look at 页.html"}]

    def ask():
        given = dict(model=MODEL, instructions=SYSTEM + "r", input=talk, tools=tools, store=False,
                     include=["reasoning.encrypted_content"], reasoning={"effort": "high", "summary": "auto"})
        if not stream:
            return client.responses.create(**given)
        with client.responses.stream(**given) as events:
            seen = list(events)
            answer = events.get_final_response()
        same([event.sequence_number for event in seen], sorted(event.sequence_number for event in seen))
        same("".join(event.delta for event in seen if event.type == "response.output_text.delta"), answer.output_text)
        return answer

    first = ask()
    same([item.type for item in first.output], ["reasoning", "message", "function_call", "function_call"])
    same(first.output[0].summary[0].text, "Two files are named; I read both before I say anything.")
    same((first.output_text, first.status), (TEXT, "completed"))
    same([json.loads(item.arguments) for item in first.output[2:]], CALLS)
    assert first.usage.output_tokens_details.reasoning_tokens > 5, first.usage
    items = lambda answer: [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
    talk += items(first)
    talk += [{"type": "function_call_output", "call_id": call.call_id, "output": text} for call, text in zip(first.output[2:], RESULTS[0])]
    kept = talk.pop(1)
    refused(openai.BadRequestError, ask, "without its required 'reasoning' item")
    talk.insert(1, {**kept, "encrypted_content": "else"})
    refused(openai.BadRequestError, ask, "'reasoning' item unchanged")
    talk[1] = kept
    second = ask()
    same([item.type for item in second.output], ["reasoning", "function_call"])
    same((second.output[0].summary, second.output[0].encrypted_content is None), ([], False))
    assert second.usage.input_tokens_details.cached_tokens >= 1024, second.usage
    talk += items(second)
    talk.append({"type": "function_call_output", "call_id": second.output[1].call_id, "output": "three"})
    same(ask().output_text, "One of the two exists.")

    talk.pop()
    refused(openai.BadRequestError, ask, "No tool output found for function call")
    plain = lambda prompt: client.responses.create(model=MODEL, input=prompt)
    short = plain("a long story")
    same((short.status, short.incomplete_details.reason), ("incomplete", "max_output_tokens"))
    forbidden = plain("something forbidden")
    same((forbidden.incomplete_details.reason, forbidden.output[0].content[0].refusal), ("content_filter", "I cannot help with that."))
    if not stream:
        same(client.responses.parse(model=MODEL, input="Ada as JSON", text_format=Person).output_parsed, Person(name="Ada Lovelace", age=36))
    refused(openai.BadRequestError, lambda: client.responses.create(model=MODEL, input="hi", previous_response_id="resp_1"), "keeps no conversation")
    refused(openai.AuthenticationError, lambda: openai.OpenAI(base_url=ORIGIN + "/v1", api_key="sk-wrong").responses.create(
        model=MODEL, input="hi"), "invalid_api_key")


for protocol in (messages, chat, responses):
    for stream in (False, True):
        protocol(stream)
    print(f"{protocol.__name__}: plays the story, streamed and whole")
