"""Tasks of three rounds of which nothing was trained on: neither a tool, nor its parameters, nor a sentence.

They show whether somebody's own tools are looked up and computed with, which the tasks of `chains` cannot: these are drawn
as those of the training are. Nothing here may be used to train, and nothing be chosen by it. Above: `served`. Below: `chain_kinds`.
"""

from __future__ import annotations

from .chain_kinds import Compute, Kinds, Lookup

__all__ = ["UNSEEN"]

UNSEEN = Kinds(
    (
        Lookup("query_inventory stock_level", "Units of an article that are in stock.", "article item_code", "sku", "Code of the article", "how many units of {v} are in stock", "units", 1, 900, 0),
        Lookup("fetch_invoice_total invoice.total", "Total of an invoice in euros.", "invoice_id", "orderid", "Number of the invoice", "the total of invoice {v}", "total", 20, 9000, 2),
        Lookup("count_open_tickets helpdesk.open_count", "Number of open tickets of a customer.", "customer", "company", "Name of the customer", "the number of open tickets for {v}", "open", 1, 400, 0),
        Lookup("read_sensor greenhouse.sensor", "Latest value of a sensor.", "sensor_id", "slug", "Identifier of the sensor", "the latest value of sensor {v}", "value", 1, 99, 1),
        Lookup("monthly_visitors analytics.visitors", "Visitors of a website last month.", "site", "domain", "Domain of the website", "last month's visitors of {v}", "visitors", 900, 80000, 0),
        Lookup("leave_days_left staff.leave", "Days of leave that an employee has left.", "employee", "person", "Full name of the employee", "the leave days that {v} has left", "days", 1, 40, 0),
        Lookup("repository_stars forge.stars", "Stars of a code repository.", "repository", "repo", "Owner and name", "the stars of {v}", "stars", 3, 40000, 0),
        Lookup("print_run press.copies", "Copies of a book that were printed.", "title", "book", "Title of the book", "how many copies of {v} were printed", "copies", 500, 60000, 0),
        Lookup("bus_delay transit.delay", "Delay of the buses in a city today, in minutes.", "city_name", "city", "The city", "today's bus delay in {v}", "minutes", 1, 55, 0),
        Lookup("subscription_fee billing.fee", "Monthly fee of a subscriber.", "username", "user", "Login of the subscriber", "the monthly fee of user {v}", "fee", 5, 90, 2),
    ),
    (
        Compute("apply_tax invoicing.add_tax", "Add a tax to an amount.", (("amount", "number", "Amount before tax"), ("rate", "number", "Rate in percent")), "add {n} percent tax to it", "{v}|{n}", "int(3,25)", "gross"),
        Compute("convert_units exchange.convert", "Convert a value with a given factor.", (("value", "number", "Value to convert"), ("factor", "number", "Factor to convert with")), "convert it with a factor of {n}", "{v}|{n}", "int(2,60)", "converted"),
        Compute("power_of arithmetic.power", "Raise a base to a power.", (("base", "number", "The base"), ("exponent", "number", "The exponent")), "raise it to the power of {n}", "{v}|{n}", "int(2,6)", "power"),
        Compute("deduct ledger.deduct", "Take a part away from a sum.", (("sum", "number", "The sum"), ("deduction", "number", "What is taken away")), "deduct {n} from it", "{v}|{n}", "int(1,80)", "left"),
        Compute("multiply_numbers arithmetic.multiply", "Multiply two numbers.", (("a", "number", "First factor"), ("b", "number", "Second factor")), "multiply that by {n}", "{v}|{n}", "int(2,50)", "product"),
        Compute("split_bill payments.split", "Split an amount evenly.", (("amount", "number", "Amount to split"), ("parts", "number", "Number of equal parts")), "split it into {n} equal parts", "{v}|{n}", "int(2,24)", "part"),
        Compute("run_formula sheet.formula", "Run a formula and return its value.", (("formula", "string", "The formula, e.g. 7 - 2"),), "subtract {n} from that number", "{v} - {n}", "int(1,60)", "value"),
        Compute("sum_up statistics.total", "Add up a list of numbers.", (("numbers", "numbers", "The numbers to add up"),), "add it up with {n}", "[{v}, {n}]", "int(2,500)", "total"),
    ),
    (
        "Could you check {0} and {1}?",
        "Tell me {0}, and {1} with the other tool.",
        "Please check {0}. Once you know, {1}.",
        "I would like to know {0}. Use that number and {1}.",
        "Check {0} for me; then {1}.",
    ),
)  # fmt: skip
