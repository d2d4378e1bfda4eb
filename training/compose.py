"""Tools put together by chance from nouns, verbs and parameters: no idea behind them, but no two alike.

They teach that names are to be copied from the list and values from the request. `Composed` looks like an `Offer`.
Above: `scenes`. Below: `family` (its styles and sentences), `values`.
"""

from __future__ import annotations

import random

from toolspeak.core.types import JSONObject, Tool, ToolCall

from .family import Style
from .values import Kind, kind
from .wording import sentence, strung

#: Verbs of names, and how they are said.
_VERBS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("get", ("Get", "Show me", "I'd like to see", "Fetch", "Give me"), "Retrieve"),
    ("find", ("Find", "Look for", "I'm looking for", "Search for"), "Find"),
    ("create", ("Create", "Set up", "Make", "I need to create"), "Create"),
    ("update", ("Update", "Change", "Modify", "Please adjust"), "Update"),
    ("calculate", ("Calculate", "Compute", "Work out", "What is"), "Calculate"),
    ("list", ("List", "Show me", "Give me a list of"), "List"),
    ("check", ("Check", "Verify", "Can you check", "Tell me about"), "Check"),
    ("estimate", ("Estimate", "Give me an estimate of", "Roughly what is"), "Estimate"),
    ("schedule", ("Schedule", "Plan", "Arrange"), "Schedule"),
    ("analyze", ("Analyze", "Run an analysis of", "Examine"), "Analyze"),
    ("delete", ("Delete", "Remove", "Get rid of"), "Delete"),
    ("export", ("Export", "Download", "Save"), "Export"),
    ("compare", ("Compare", "Contrast", "Show a comparison of"), "Compare"),
    ("generate", ("Generate", "Produce", "Write"), "Generate"),
)
#: Verbs that change something; the others only look or reckon.
_CHANGING = frozenset(("create", "update", "schedule", "delete"))
_NOUNS = """market report|core sample|customer segment|power plant output|lab result|training plan|travel permit|insurance claim|
delivery route|song sheet|water level|lock traffic|student record|sales quota|bridge load|crop rotation|ticket queue|
energy audit|loan offer|risk score|blood test|recipe cost|machine setting|print job|license plate|payment plan|room layout|
survey result|tide table|exam schedule|noise map|genome sequence|tax refund|warehouse shelf|game ranking|flight crew roster|
heat map|code review|backup job|rumor digest|tour package|stress test|menu plan|bus timetable|product bundle|press release|
shift plan|fuel mix|carbon filter|seating chart|parcel label|court usher|quality inspection|moss count|orbit track|
dialect sample|budget draft|concert setlist|image filter|voice message|sensor casing|job applicant|wind turbine|street light|
museum tour|lacquer batch|vaccine batch|chess match|language lesson|bond yield|reading list|parking permit|satellite image|
fitness goal|charity donation|movie script|rental locker|door code|spare part|garden plot|interest group|patient file|
mineral deposit|wedding guest list|network node|coffee blend|harbor index|river discharge|battery cell|ballot count"""
NOUNS = [each.strip() for each in _NOUNS.replace("\n", "").split("|")]
#: Names, kind of value, description, and how it is said; `{v}` is the value.
_PARAMS: tuple[tuple[str, str, str, str], ...] = (
    ("city location town", "city", "Name of the city", "in {v}|for {v}|located in {v}"),
    ("country nation", "country", "The country", "in {v}|for the country {v}"),
    ("start_date from_date begin", "date", "Start date in the format YYYY-MM-DD", "from {v}|starting {v}|beginning on {v}"),
    ("end_date until to_date", "date", "End date in the format YYYY-MM-DD", "until {v}|ending {v}|up to {v}"),
    ("year", "int(1950,2030)", "The year", "in {v}|for the year {v}|of {v}"),
    ("month", "month", "Name of the month", "in {v}|for {v}"),
    ("limit max_results count", "int(1,50)", "Number of results", "limited to {v} results|at most {v} of them|top {v}"),
    ("category type kind", "pick(standard|premium|basic|industrial|organic|classic|digital|regional)", "Category", "of the category {v}|of type {v}"),
    ("priority", "enum(low|medium|high|critical)", "Priority level", "with {v} priority|priority {v}"),
    ("status state", "enum(open|closed|pending|archived)", "Status", "that are {v}|with the status {v}"),
    ("name title", "person", "Name of the person", "for {v}|belonging to {v}|of {v}"),
    ("email contact_email", "email", "E-mail address", "for {v}|and send it to {v}|with the contact {v}"),
    ("id identifier record_id", "code", "Identifier", "with the id {v}|number {v}|({v})"),
    ("temperature temp", "num(-20,200)", "Temperature in degrees Celsius", "at {v} degrees|at a temperature of {v} °C"),
    ("weight mass", "num(0.5,900)", "Weight in kilograms", "weighing {v} kg|with a weight of {v} kilograms|at {v} kg"),
    ("length", "num(0.5,500)", "Length in meters", "{v} meters long|with a length of {v} m|of length {v}"),
    ("width", "num(0.5,300)", "Width in meters", "{v} m wide|with a width of {v} meters"),
    ("height altitude", "num(0.5,3000)", "Height in meters", "at a height of {v} m|{v} meters high"),
    ("price cost amount", "num(1,5000,2)", "Price in dollars", "at ${v}|for {v} dollars|with a price of {v}"),
    ("budget max_budget", "big(100,500000)", "Budget in dollars", "with a budget of ${v}|for at most {v} dollars"),
    ("rate growth_rate interest", "pct", "Rate as a decimal, e.g. 0.05 for 5%", "at a rate of {v}|with a rate of {v}|growing by {v}"),
    ("discount", "pctn", "Discount in percent", "with a discount of {v}|at {v} off"),
    ("duration minutes", "int(5,300)", "Duration in minutes", "lasting {v} minutes|for {v} minutes|with a duration of {v} minutes"),
    ("time start_time", "time", "Time in 24-hour format (HH:MM)", "at {v}|starting at {v}"),
    ("quantity units number", "int(1,200)", "Quantity", "with {v} units|for {v} pieces|quantity {v}"),
    ("language", "lang", "Language", "in {v}|written in {v}"),
    ("currency", "currency", "Three-letter currency code", "in {v}|paid in {v}"),
    ("format output_format", "enum(pdf=PDF|csv=CSV|json=JSON|html=HTML)", "Output format", "as {v}|in {v} format"),
    ("color colour", "color", "Color", "in {v}|colored {v}"),
    ("company organization", "company", "Company", "of {v}|from the company {v}|by {v}"),
    ("values data numbers", "list(int(1,200),3,6)", "List of numbers", "using the values {v}|for {v}|with data {v}"),
    ("tags keywords", "list(word,1,4)", "Tags", "tagged {v}|with the tags {v}"),
    ("cities locations", "list(city,2,4)", "Cities", "for {v}|in {v}"),
    ("topic subject", "topic", "Topic", "about {v}|on {v}"),
    ("user username owner", "user", "User name", "for the user {v}|owned by {v}"),
    ("speed velocity", "num(1,300)", "Speed in km/h", "at {v} km/h|with a speed of {v} kilometers per hour"),
    ("age", "int(1,95)", "Age in years", "aged {v}|who is {v} years old|with an age of {v}"),
    ("unit units", "enum(metric|imperial)", "Unit system. Default is 'metric'.", "in {v} units|using {v} units"),
    ("sort_by order", "enum(date|name|price|rating)", "Sort order", "sorted by {v}|ordered by {v}"),
    ("level difficulty", "enum(beginner|intermediate|advanced)", "Level", "at the {v} level|for {v}s"),
    ("address", "address", "Postal address", "at {v}|for the address {v}"),
    ("url link", "url", "Address of a page", "from {v}|at {v}"),
    ("file path filename", "path", "Path of a file", "from {v}|using the file {v}|in {v}"),
    ("threshold cutoff", "num(0.1,0.9,2)", "Threshold between 0 and 1", "with a threshold of {v}|above a cutoff of {v}"),
    ("angle", "int(1,180)", "Angle in degrees", "at an angle of {v} degrees|turned by {v}°"),
    ("pressure", "num(0.5,200)", "Pressure in bar", "at {v} bar|under a pressure of {v} bar"),
    ("material", "pick(steel|wood|copper|glass|concrete|aluminum|bamboo)", "Material", "made of {v}|from {v}"),
    ("product item", "product", "Product", "for the {v}|of a {v}"),
    ("team", "team", "Team", "of {v}|for the team {v}"),
    ("species", "species", "Species", "of the {v}|for the species {v}"),
    ("day weekday", "weekday", "Day of the week", "on {v}|every {v}"),
    ("method algorithm", "pick(linear|greedy|bayesian|montecarlo|exact|adaptive)", "Method", "using the {v} method|with {v}"),
    ("distance radius", "num(1,900)", "Distance in kilometers", "within {v} km|over a distance of {v} kilometers"),
)  # fmt: skip
_FLAGS = (
    (
        "include_details detailed",
        "Whether to return all details. Default is false.",
        "with all details|including details",
    ),
    (
        "notify send_notification",
        "Whether to send a notification. Default is false.",
        "and notify me|and send a notification",
    ),
    ("dry_run simulate", "Only simulate. Default is false.", "as a dry run|but only simulate it"),
    ("verbose", "Print more. Default is false.", "with verbose output"),
    ("overwrite force", "Replace what is there. Default is false.", "overwriting what is there|and force it"),
    ("recursive", "Include everything below. Default is false.", "recursively|including everything below"),
)


class Composed:
    """A tool of chance, and requests that it serves."""

    def __init__(self, rng: random.Random, style: Style) -> None:
        self._verb, self._said, about = rng.choice(_VERBS)
        self._noun = rng.choice(NOUNS)
        self._params: list[tuple[str, Kind, list[str], bool]] = []
        properties: JSONObject = {}
        rows = rng.sample(_PARAMS, rng.choice([1, 2, 2, 3, 3, 4, 5]))
        least = rng.randint(1, len(rows))
        for at, (names, spec, told, phrases) in enumerate(rows):
            name = rng.choice(names.split())
            if name in properties:
                continue
            found, required = kind(spec), at < least
            properties[name] = _schema(found, told, rng, style)
            self._params.append((name, found, phrases.split("|"), required))
        self._flag: tuple[str, list[str]] | None = None
        if rng.random() < 0.35:
            names, told, phrases = rng.choice(_FLAGS)
            name = rng.choice(names.split())
            properties[name] = {"type": "boolean", "description": told}
            self._flag = (name, phrases.split("|"))
        required = [name for name, _, _, needed in self._params if needed]
        words = self._noun.replace(" ", "_")
        name = rng.choice(
            [f"{self._verb}_{words}", f"{words}.{self._verb}", f"{self._verb}_{words}_info", f"{words}_{self._verb}"]
        )
        told = f"{about} {_article(self._noun)}{rng.choice(['.', '', ' based on the given parameters.', ' for the user.'])}"
        parameters: JSONObject = {"type": "object", "properties": properties, "required": required}
        self.tool = Tool(style.named(name), style.told(told), parameters)
        self.required = required

    def ask(self, rng: random.Random) -> tuple[str, ToolCall]:
        """A request for one call."""
        said, call = self.short(rng)
        return sentence(f"{said}{rng.choice(['.', '.', ''])}", rng), call

    def ask_several(self, rng: random.Random, count: int) -> tuple[str, list[ToolCall]]:
        """A request for several."""
        if rng.random() < 0.5:
            told = [self._clauses(rng, None) for _ in range(count)]
            said = f"{rng.choice(self._said)} the {self._noun} {'; '.join(words for words, _ in told[:-1])} and {told[-1][0]}."
            return sentence(said, rng), [ToolCall(self.tool.name, arguments) for _, arguments in told]
        several = [self.short(rng) for _ in range(count)]
        return strung([said for said, _ in several], rng), [call for _, call in several]

    def miss(self, rng: random.Random) -> str:
        """A request that sounds like this tool and is for something else: another thing, or the opposite deed."""
        words, _ = self._clauses(rng, 0.45)
        said, noun = self._said, self._noun
        if rng.random() < 0.7:
            noun = rng.choice([each for each in NOUNS if not set(each.split()) & set(noun.split())])
        else:
            said = rng.choice([each for verb, each, _ in _VERBS if (verb in _CHANGING) != (self._verb in _CHANGING)])
        return sentence(f"{rng.choice(said)} the {noun} {words}.", rng)

    def short(self, rng: random.Random) -> tuple[str, ToolCall]:
        """A request for one call, with nothing around it."""
        words, arguments = self._clauses(rng, 0.45)
        return (
            f"{rng.choice(self._said)} {rng.choice(['the', 'the', _article(self._noun).split()[0]])} {self._noun} {words}",
            ToolCall(self.tool.name, arguments),
        )

    def _clauses(self, rng: random.Random, optional: float | None) -> tuple[str, JSONObject]:
        words: list[str] = []
        arguments: JSONObject = {}
        for name, found, phrases, required in self._params:
            if required or (optional is not None and rng.random() < optional):
                drawn = found.draw(rng)
                label = name.replace("_", " ")
                phrase = rng.choice([*phrases, *phrases, f"with {label} {{v}}", f"with a {label} of {{v}}"])
                words.append(phrase.replace("{v}", drawn.said))
                arguments[name] = drawn.value
        rng.shuffle(words)
        if self._flag and optional is not None and rng.random() < 0.3:
            words.append(rng.choice(self._flag[1]))
            arguments[self._flag[0]] = True
        return " ".join(words) if rng.random() < 0.6 else ", ".join(words), {
            name: arguments[name] for name in self.tool.parameters["properties"] if name in arguments
        }


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _schema(found: Kind, about: str, rng: random.Random, style: Style) -> JSONObject:
    schema: JSONObject = {**found.schema}
    if found.options:
        if rng.random() < style.loose:
            about += f". Options: {', '.join(found.options)}"
        else:
            schema["enum"] = list(found.options)
    if style.hints and schema["type"] == "number":
        schema["format"] = "float"
        about += " This is a float type value."
    if rng.random() < 0.9:
        schema["description"] = about
    return schema
