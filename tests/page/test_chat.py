"""The chat of the page, in a browser, against the real server and a scripted model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.page.conftest import unfold, watched
from tests.page.page_server import MARKDOWN, Served

pytestmark = [pytest.mark.system("browser"), pytest.mark.requirement("H2")]

FIELD = ".composer textarea"
SUGGESTIONS = (
    "What is 17 times 23?",
    "What time is it in Oslo and in Tokyo?",
    "Roll two dice and tell me the time in Paris.",
    "What is 12 * 12 and 13 * 13?",
    "Calculate (12 + 30) * 7.",
    "What time is it in Tokyo, in London and in New York?",
    "What is the capital of France?",
)


def ask(page: Any, question: str) -> Any:
    """Ask, and wait until the answer is over; gives what is shown of both."""
    count = page.locator(".exchange").count()
    page.fill(FIELD, question)
    page.press(FIELD, "Enter")
    exchange = page.locator(".exchange").nth(count)
    exchange.locator(".about").wait_for()
    return exchange


def test_rounds_are_one_line_each_afterwards_and_open_to_everything(page: Any):
    exchange = ask(page, "What time is it in Oslo, and what is 17 times 23?")
    assert "It is a quarter past noon" in exchange.locator(".text").inner_text()
    rounds = exchange.locator("details.round")
    assert rounds.count() == 1
    line = rounds.locator("summary").inner_text()
    assert "Round 1" in line and "clock, calculator" in line and "s" in line
    assert not rounds.locator(".call").first.is_visible()
    unfold(rounds.locator("summary"))
    opened = rounds.inner_text()
    assert "I look it up." in opened  # the text before the calls
    assert '{"expression":"17 * 23"}' in opened and "391" in opened
    assert '{"zone":"Europe/Oslo"}' in opened


def test_text_and_calls_are_shown_while_they_come(page: Any):
    page.fill(FIELD, "linger over it")
    page.press(FIELD, "Enter")
    page.locator(".live").get_by_text("It takes a while, and then").wait_for()
    assert page.locator(".composer button").inner_text() == "Stop"
    page.click(".composer button")
    page.locator(".notice.warn").get_by_text("Stopped").wait_for()
    assert "It takes a while" in page.locator(".answer .text").inner_text()  # what had come is kept
    assert page.locator(".composer button").inner_text() == "Send"


def test_a_question_can_be_edited_and_sent_again(page: Any, server: Served):
    ask(page, "hello")
    ask(page, "hello again")
    page.locator(".question button").first.click()
    page.fill(".edit textarea", "Show some markdown")
    page.get_by_role("button", name="Resend").click()
    page.locator(".text h3").wait_for()
    assert page.locator(".exchange").count() == 1
    texts = [message.text for message in server.script.asked[-1].messages if message.role == "user"]
    assert texts == ["Show some markdown"]  # what followed the old question is forgotten


def test_markdown_becomes_elements(page: Any):
    exchange = ask(page, "Show some markdown")
    text = exchange.locator(".text")
    assert text.locator("h3").inner_text() == "A heading"
    assert text.locator("strong").inner_text() == "bold"
    assert text.locator("li").all_inner_texts() == ["one", "two"]
    assert text.locator("td").all_inner_texts() == ["1", "2"]
    assert text.locator("pre").inner_text().strip() == 'print("hello")'
    link = text.locator("a")
    assert (link.get_attribute("href"), link.get_attribute("rel")) == ("https://example.com/", "noopener noreferrer")


@pytest.mark.requirement("H6")
def test_why_there_was_no_call_is_one_line(page: Any):
    exchange = ask(page, "Show an example of a call")
    unfold(exchange.locator("summary").get_by_text("Why was there no call?"))
    line = exchange.locator(".why")
    line.get_by_text("was not accepted as a call").wait_for()
    assert "\n" not in line.inner_text().strip()
    assert "there is no tool with that name" in line.inner_text()  # words, and not the name of a rule


@pytest.mark.requirement("H6")
def test_where_no_call_was_likely_nothing_is_said_about_it(page: Any):
    assert "no call" not in ask(page, "hello").inner_text()
    page.click(".tools summary")
    for box in page.locator(".tools input[type=checkbox]").all():
        box.uncheck()
    page.click(".tools summary")
    assert "no call" not in ask(page, "Show an example of a call").inner_text()


def test_mode_plan_and_dialect_are_those_chosen(page: Any, server: Served):
    page.click(".call-settings summary")
    page.get_by_role("combobox", name="Plan", exact=True).select_option("decision")
    page.locator(".call-settings summary").get_by_text("Calls: decision").wait_for()
    exchange = ask(page, "hello")
    assert "plan decision" in exchange.locator(".about").inner_text()
    page.get_by_role("combobox", name="Plan", exact=True).select_option("inline")
    page.get_by_role("combobox", name="Dialect", exact=True).select_option("hermes")
    ask(page, "hello")
    assert "<tool_call" in server.script.asked[-1].messages[0].text
    page.get_by_role("combobox", name="Mode", exact=True).select_option("off")
    exchange = ask(page, "hello")
    assert (
        "plan pass" in exchange.locator(".about").inner_text()
        or "plan native" in exchange.locator(".about").inner_text()
    )
    assert server.script.asked[-1].tools


def test_for_a_tool_of_ones_own_one_is_asked_what_it_answers(page: Any, server: Served):
    page.click(".tools summary")
    schema = '[{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]'
    page.get_by_label("Your own tools (JSON Schema)").fill(schema)
    assert "get_weather" in page.locator(".tools [role=status]").first.inner_text()
    page.click(".tools summary")
    server.script.calls["weather"] = ("get_weather", {"city": "Oslo"})
    page.fill(FIELD, "How is the weather?")
    page.press(FIELD, "Enter")
    page.get_by_label('get_weather was called with {"city":"Oslo"}. What should it return?').fill("sunny")
    page.get_by_role("button", name="Send result").click()
    page.locator(".about").wait_for()
    unfold(page.locator("details.round summary"))
    page.locator("details.round").get_by_text("sunny").first.wait_for()


def test_a_tool_that_fails_tells_the_model_and_the_person(page: Any, server: Served):
    server.script.calls["half a sum"] = ("calculator", {"expression": "2 +"})
    page.fill(FIELD, "What is half a sum?")
    page.press(FIELD, "Enter")
    page.locator("details.round .badge.bad").wait_for()


def test_a_call_that_the_limit_cut_off_is_told_as_that_and_not_answered(page: Any):
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "clock", "arguments": '{"zone": "Euro'}}
    choices = ({"delta": {"tool_calls": [call]}}, {"delta": {}, "finish_reason": "length"})
    stream = "".join(f"data: {json.dumps({'choices': [{'index': 0, **each}]})}\n\n" for each in choices)
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        route.fulfill(content_type="text/event-stream", body=f"{stream}data: [DONE]\n\n")

    page.route("**/v1/chat/completions", answer)
    told = ask(page, "What time is it?").locator(".notice.bad").inner_text()
    assert "reached the token limit inside a call to clock, so the call was not run" in told
    assert len(asked) == 1


def test_an_upstream_that_fails_is_told(page: Any):
    page.get_by_role("combobox", name="Model", exact=True).select_option("Other…")
    page.get_by_label("Model name").fill("nobody-has-this")
    exchange = ask(page, "hello")
    assert "Request failed" in exchange.locator(".notice.bad").inner_text()
    assert "nobody-has-this" in exchange.locator(".notice.bad").inner_text()
    exchange.get_by_role("link", name="Details").click()
    page.locator(".one .notice.bad").first.wait_for()


def test_sums_are_read_by_rules(page: Any):
    sums = {"1 + 2 * 3": 7, "(1 + 2) * 3": 9, "2 ^ 3 ^ 2": 512, "-2 ^ 2": -4, "10 % 4 / 2": 1, ".5 * 4": 2, "1e3": 1000}
    wrong = ["", "1 +", "(1", "1 2", "alert(1)", "1;2", "((" * 60 + "1"]
    script = """async ([sums, wrong]) => {
      const { calculate } = await import("./toolspeak/page/calculator.js");
      const refused = wrong.filter((sum) => { try { calculate(sum); return false; } catch { return true; } });
      return [sums.map(calculate), refused.length];
    }"""
    assert page.evaluate(script, [list(sums), wrong]) == [list(sums.values()), len(wrong)]


#: What is written, and what it becomes. Without spaces between elements.
MARKUP = {
    "3. three\n4. four": '<ol start="3"><li>three</li><li>four</li></ol>',
    "1. one\n\n2. two": "<ol><li>one</li><li>two</li></ol>",
    "- a\n  - b\n    1. c\n- d": "<ul><li>a<ul><li>b<ol><li>c</li></ol></li></ul></li><li>d</li></ul>",
    "- a\n1. b": "<ul><li>a</li></ul><ol><li>b</li></ol>",
    "1. a\n   - b\n2. c": "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>",
    "- a\n  more of a\n- b": "<ul><li>a\nmore of a</li><li>b</li></ul>",
    "- a\n\nafter": "<ul><li>a</li></ul><p>after</p>",
    "- a\n***": "<ul><li>a</li></ul><hr>",
    "**bold `co**de` it**": "<p><strong>bold <code>co**de</code> it</strong></p>",
    "*a **b** c*": "<p><em>a <strong>b</strong> c</em></p>",
    "2 * 3 * 4 and a_b_c": "<p>2 * 3 * 4 and a_b_c</p>",
    r"so \(a_1 * b_2 * c\) and $x_1 _y_$": r'<p>so <span class="formula">\(a_1 * b_2 * c\)</span> and <span class="formula">$x_1 _y_$</span></p>',
    "\\[\n\\int_0^1 x^2\n\\]\n\nx": '<div class="formula" dir="ltr">\\[\n\\int_0^1 x^2\n\\]</div><p>x</p>',
    "$$ a*b*c $$": '<div class="formula" dir="ltr">$$ a*b*c $$</div>',
    "It costs $5 or *maybe* $6.": "<p>It costs $5 or <em>maybe</em> $6.</p>",
    "- [ ] a\n- [x] *b*": '<ul><li class="task"><input type="checkbox" disabled="" aria-label="to do"> a</li>'
    '<li class="task"><input type="checkbox" disabled="" checked="" aria-label="done"> <em>b</em></li></ul>',
    "|a|b|\n|:-:|--:|\n|1|2|": '<div class="wide" tabindex="0"><table><thead><tr><th class="middle">a</th>'
    '<th class="right">b</th></tr></thead><tbody><tr><td class="middle">1</td><td class="right">2</td></tr></tbody></table></div>',
    "[w](https://e.example/a_(b)) x": '<p><a href="https://e.example/a_(b)" rel="noopener noreferrer" target="_blank">w</a> x</p>',
    "([w](https://e.example/)) x": '<p>(<a href="https://e.example/" rel="noopener noreferrer" target="_blank">w</a>) x</p>',
}


def test_markdown_means_what_people_expect(page: Any):
    script = """async (texts) => {
      const { markdown } = await import("./toolspeak/page/markdown.js");
      return texts.map((text) => markdown(text).element.innerHTML);
    }"""
    assert dict(zip(MARKUP, page.evaluate(script, list(MARKUP)), strict=True)) == MARKUP


def test_escape_cancels_wherever_the_focus_is_and_sending_again_waits_for_the_end(page: Any):
    ask(page, "hello")
    page.locator(".question button").first.click()
    page.fill(FIELD, "linger over it")
    page.press(FIELD, "Enter")
    page.locator(".live").wait_for()
    page.get_by_role("button", name="Resend").click()
    page.locator(".edit").get_by_text("Wait for the current answer").wait_for()
    assert page.locator(".exchange").count() == 2
    page.locator(".edit textarea").press("Escape")
    page.locator(".notice.warn").get_by_text("Stopped").wait_for()


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("nojson", "Not a valid list of tools"),
        ('["clock"]', "each tool must be an object"),
        ('[{"name": "two words"}]', "each tool needs a `name`"),
        ('[{"name": "get_weather", "parameters": "city"}]', "the `parameters` of get_weather must be an object"),
    ],
)
def test_nothing_is_sent_without_own_tools_that_cannot_be_read(page: Any, server: Served, written: str, why: str):
    own = page.get_by_label("Your own tools (JSON Schema)")
    page.click(".tools summary")
    own.fill(written)
    page.keyboard.press("Escape")
    before = len(server.script.asked)
    page.fill(FIELD, "hello")
    page.press(FIELD, "Enter")
    page.locator(".tools .failed").get_by_text(why).wait_for()
    assert own.get_attribute("aria-invalid") == "true"
    assert page.locator(FIELD).input_value() == "hello"
    own.fill("")
    page.keyboard.press("Escape")
    page.press(FIELD, "Enter")
    page.locator(".exchange .about").wait_for()
    assert len(server.script.asked) == before + 1


def test_a_server_that_runs_no_tools_has_no_heading_for_them(page: Any):
    with page.expect_response("**/toolspeak/tools"):
        page.click(".tools summary")
    page.get_by_text("Demo tools (run in your browser)").wait_for()
    assert not page.get_by_text("Server tools").is_visible()


def test_an_own_tool_named_like_another_is_told(page: Any):
    page.click(".tools summary")
    page.get_by_label("Your own tools (JSON Schema)").fill('[{"name": "clock"}]')
    said = page.locator(".tools [role=status]").first
    assert "Duplicate tool name: clock" in said.inner_text()
    page.locator(".tools input[type=checkbox]").first.uncheck()
    assert "Duplicate" not in said.inner_text()


def results_of_a_call(page: Any, name: str, arguments: str) -> list[Any]:
    """The requests of a chat whose first answer is one call; the second has its result."""
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    first = [{"delta": {"tool_calls": [call]}}, {"delta": {}, "finish_reason": "tool_calls"}]
    bodies = [[*first], [{"delta": {"content": "I see."}}, {"delta": {}, "finish_reason": "stop"}]]
    sent: list[Any] = []

    def answer(route: Any) -> None:
        sent.append(route.request.post_data_json)
        chunks = [f"data: {json.dumps({'choices': [{'index': 0, **each}]})}\n\n" for each in bodies[len(sent) - 1]]
        route.fulfill(content_type="text/event-stream", body="".join([*chunks, "data: [DONE]\n\n"]))

    page.route("**/v1/chat/completions", answer)
    ask(page, "What is 17 times 23?")
    return sent


@pytest.mark.parametrize("key", ["expression", "sum"])
def test_the_calculator_runs_by_either_name_of_its_parameter(page: Any, key: str):
    sent = results_of_a_call(page, "calculator", json.dumps({key: "17 * 23"}))
    assert sent[1]["messages"][-1]["content"] == "391"
    assert page.locator("details.round .badge.bad").count() == 0


def test_a_call_whose_arguments_do_not_fit_is_not_run(page: Any):
    sent = results_of_a_call(page, "calculator", '{"x": 1}')
    exchange = page.locator(".exchange")
    exchange.locator("summary .badge.bad").get_by_text("1 invalid call").wait_for()
    assert sent[1]["messages"][-1]["content"] == "invalid call: `expression` is required"
    unfold(exchange.locator("details.round summary"))
    assert "invalid call" in exchange.locator(".call").inner_text()


#: A schema, arguments, and the beginning of what is wrong with them.
CHECKS: list[tuple[Any, Any, str]] = [
    ({}, {"a": 1}, ""),
    ({"type": "object"}, [], "the arguments must be an object"),
    ({"type": "object", "required": ["sum"]}, {}, "`sum` is required"),
    ({"properties": {"n": {"type": "integer"}}}, {"n": 1.5}, "`n` must be an integer"),
    ({"properties": {"n": {"type": "integer"}}}, {"n": 2.0}, ""),
    ({"properties": {"n": {"type": ["string", "null"]}}}, {"n": 1}, "`n` must be a string or null"),
    ({"properties": {"n": {"enum": ["a", "b"]}}}, {"n": "c"}, '`n` must be "a" or "b"'),
    ({"properties": {"n": {"const": 1}}}, {"n": 2}, "`n` must be 1"),
    ({"properties": {"n": {"minimum": 1, "maximum": 6}}}, {"n": 7}, "`n` must be at most 6"),
    ({"properties": {"n": {"exclusiveMinimum": 1}}}, {"n": 1}, "`n` must be more than 1"),
    ({"properties": {"n": {"minLength": 2}}}, {"n": "🦜"}, "`n` must be a text whose length is at least 2"),
    ({"properties": {"n": {"items": {"type": "string"}}}}, {"n": ["a", 1]}, "item 2 of `n` must be a string"),
    ({"properties": {"n": {"maxItems": 1}}}, {"n": [1, 2]}, "`n` must be a list whose length is at most 1"),
    ({"properties": {}, "additionalProperties": False}, {"n": 1}, "`n` is not a parameter"),
    ({"additionalProperties": {"type": "string"}}, {"n": 1}, "`n` must be a string"),
    ({"properties": {"n": {"pattern": "(a+)+$", "anyOf": [False]}}}, {"n": "a" * 99 + "!"}, ""),
    ({"properties": {"constructor": {"type": "string"}}, "required": ["toString"]}, {}, "`toString` is required"),
]


def test_arguments_are_checked_against_the_schema_of_their_tool(page: Any):
    script = """async (checks) => {
      const { schemaError } = await import("./toolspeak/page/schema_check.js");
      return checks.map(([schema, value]) => schemaError(schema, value));
    }"""
    assert page.evaluate(script, CHECKS) == [error for _, _, error in CHECKS]


def test_an_answer_that_failed_is_tried_again_also_with_another_model(page: Any, server: Served):
    page.get_by_role("combobox", name="Model", exact=True).select_option("Other…")
    page.get_by_label("Model name").fill("nobody-has-this")
    exchange = ask(page, "hello")
    exchange.get_by_role("combobox", name="Retry with another model").select_option("other-model")
    page.locator(".exchange .text").get_by_text("There is nothing to look up.").wait_for()
    page.locator(".answer-facts").get_by_text("other-model").wait_for()
    assert (page.locator(".exchange").count(), server.script.asked[-1].model) == (1, "other-model")
    asked = len(server.script.asked)
    page.get_by_role("button", name="Retry", exact=True).click()
    page.locator(".live, .waiting").first.wait_for(state="detached")
    page.locator(".answer-facts").get_by_text("other-model").wait_for()
    assert len(server.script.asked) == asked + 1


def test_answers_code_calls_and_results_can_be_copied(browser: Any, server: Served, faults: list[str]):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = watched(context, server, faults)
    page.goto(server.link())
    page.wait_for_selector(".composer")

    def copied(button: Any) -> str:
        button.click()
        button.get_by_text("Copied").wait_for()
        return page.evaluate("navigator.clipboard.readText()")

    exchange = ask(page, "Show some markdown")
    assert copied(exchange.get_by_role("button", name="Copy answer")).startswith("# A heading")
    assert copied(exchange.get_by_role("button", name="Copy code")) == 'print("hello")'
    assert exchange.locator(".code-head").inner_text().startswith("python")
    assert exchange.locator(".code-string").inner_text() == '"hello"'
    exchange = ask(page, "What time is it in Oslo, and what is 17 times 23?")
    unfold(exchange.locator("details.round summary"))
    assert json.loads(copied(exchange.get_by_role("button", name="Copy call").nth(1)))["name"] == "calculator"
    assert copied(exchange.get_by_role("button", name="Copy result").nth(1)) == "391"
    context.close()
    assert not faults


def test_it_is_said_what_the_model_does_and_for_how_long(page: Any, server: Served):
    page.route("**/v1/chat/completions", lambda route: None)  # never answered
    told = {"sent": 2, "writing": True, "fault": ["the model refused"]}
    page.route("**/toolspeak/requests/*", lambda route: route.fulfill(json=told))
    page.fill(FIELD, "hello")
    page.press(FIELD, "Enter")
    page.locator(".waiting").get_by_text("Thinking…").wait_for()
    page.locator(".waiting").get_by_text("Retrying (attempt 2): the model refused…").wait_for()
    page.locator(".waiting").get_by_text("2 s").wait_for()
    page.click(".composer button")
    page.locator(".notice.warn").get_by_text("Stopped.").wait_for()
    assert page.locator(".waiting").count() == 0


def test_markdown_that_comes_in_pieces_becomes_what_it_becomes_whole(page: Any):
    texts = [
        *MARKUP,
        MARKDOWN,
        "```js\nlet a;\n```\n\nafter\n\n- x\n- y\n\nend\n",
        "a\n\n" * 300,
        "```\nnever closed\n",
    ]
    script = """async (texts) => {
      const { markdown } = await import("./toolspeak/page/markdown.js");
      const { LiveMarkdown } = await import("./toolspeak/page/live_markdown.js");
      const plain = (element) => element.textContent.replace(/\\s+/g, " ").trim();
      return Promise.all(texts.map((text) => Promise.all([1, 7, 1000].map(async (size) => {
        const live = new LiveMarkdown();
        for (let at = 0; at < text.length; at += size) live.add(text.slice(at, at + size));
        for (let turn = 0; live.add("") && turn < 1000; turn += 1);
        const { element: whole, done } = markdown(text);
        await done;
        const names = (element) => [...element.querySelectorAll("h3, li, td, pre, strong, em, a, hr, blockquote")].map((each) => each.tagName).join();
        return plain(live.element) === plain(whole) && names(live.element) === names(whole);
      }))));
    }"""
    assert page.evaluate(script, texts) == [[True] * 3] * len(texts)


def test_all_suggestions_and_the_facts_of_an_answer_fit_on_a_phone(browser: Any, server: Served, faults: list[str]):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = watched(context, server, faults)
    page.goto(server.link())
    last = page.locator(".suggestions button").last
    last.wait_for()
    box, field = last.bounding_box(), page.locator(".composer").bounding_box()
    assert box["x"] + box["width"] <= 390 and box["y"] + box["height"] <= field["y"]
    last.click()
    facts = page.locator(".about .answer-facts")
    facts.wait_for()
    assert facts.evaluate("facts => facts.getBoundingClientRect().right <= innerWidth")
    context.close()
    assert not faults


def test_a_suggestion_is_asked_at_once(page: Any):
    suggestions = page.locator(".suggestions button")
    listed = page.evaluate("import('./toolspeak/page/suggestions.js').then((module) => module.SUGGESTIONS)")
    assert suggestions.all_inner_texts() == listed == [*SUGGESTIONS]
    suggestions.nth(1).click()
    page.locator(".exchange .about").wait_for()
    assert page.locator(".bubble").all_inner_texts() == [SUGGESTIONS[1]]
    assert page.locator(FIELD).input_value() == ""


def test_editing_ends_with_escape_and_sends_with_enter(page: Any, server: Served):
    ask(page, "hello")
    page.get_by_role("button", name="Edit").click()
    page.locator(".edit textarea").press("Escape")
    page.locator(".edit").wait_for(state="detached")
    page.get_by_role("button", name="Edit").click()
    page.locator(".edit textarea").fill("Show some markdown")
    page.locator(".edit textarea").press("Enter")
    page.locator(".text h3").wait_for()
    assert page.locator(".exchange").count() == 1
