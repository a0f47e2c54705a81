"""Every key of a configuration is printed with its meaning, and the JSON Schema says what the configuration says."""

import json
import tomllib

import pytest
from click.testing import CliRunner

from pairloom.cluster.commands.cli import main
from pairloom.cluster.config.config_file import configured, named_configs
from pairloom.cluster.config.config_reference import config_schema, config_text, sections, toml_value
from pairloom.pipeline.config.config import Config


def pairloom(*arguments):
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def test_every_key_has_a_meaning_and_is_printed_with_its_default():
    text = pairloom("config").stdout
    assert text == config_text()
    for name, section in sections().items():
        assert f"[{name}]" in text
        for key in section.keys:
            assert key.meaning, f"{name}.{key.name} has no meaning"
            assert f"\n{key.name} = " in text or f"\n# {key.name} =" in text


def test_numbers_and_lists_are_named_beside_words():
    text = config_text()
    for values in (
        'One of "scale", "auto", a number above 0 or a list of values, each "scale", "auto" or a number above 0.',
        'One of "none", "auto" or a number from 0 to 1.',
        'One of "auto" or a whole number from 2 to 2147483647.',
    ):
        assert values in text.replace("\n# ", " ")


def test_what_is_printed_is_a_configuration_of_all_defaults():
    tables = tomllib.loads(config_text())
    tables["data"]["features"] = "digits"
    printed, plain = configured(tables), configured({"data": {"features": "digits"}})
    assert printed == plain


def test_optional_sections_are_comments_that_can_be_turned_on():
    text = config_text()
    start = text.index("# [growth]")
    section = text[start : text.index("\n[", start)]
    lines = [line.removeprefix("# ") for line in section.splitlines()]
    on = [line for line in lines if line.startswith("[") or " = " in line]
    tables = tomllib.loads("\n".join(on))
    assert configured({"data": {"features": "digits"}, **tables}).growth.plateau == 0.01


def test_a_shipped_configuration_is_printed_as_it_is():
    for name, path in named_configs().items():
        assert pairloom("config", name).stdout == path.read_text()


def test_the_schema_is_that_of_the_configuration():
    schema = json.loads(pairloom("config", "--schema").stdout)
    assert schema == json.loads(json.dumps(config_schema()))
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(schema["properties"]) == set(Config.model_fields)
    model = schema["$defs"]["ModelConfig"]["properties"]
    assert model["C"]["description"].startswith("penalty of an error")


def test_the_schema_accepts_what_is_right_and_refuses_what_is_wrong():
    jsonschema = pytest.importorskip("jsonschema")
    schema = config_schema()
    check = jsonschema.Draft202012Validator(schema)
    check.check_schema(schema)
    for path in named_configs().values():
        check.validate(tomllib.loads(path.read_text()))
    digits = {"data": {"features": "digits"}}
    for wrong in (
        {},
        {"data": {}},
        {"data": {"features": 3}},
        {**digits, "grap": {}},
        {**digits, "model": {"folds": 1}},
        {**digits, "model": {"calibration": "none"}},
        {**digits, "graph": {"family": "ring"}},
        {**digits, "run": {"memory_limit": "much"}},
        {**digits, "growth": {"share": 2}},
    ):
        assert not check.is_valid(wrong), wrong


@pytest.mark.parametrize(
    "value", ["a", 'quote " and \\', "two\nlines", True, 3, 0.001, 1e-30, ["x", 2.5], {"a b": 1.0}, "\x7f"]
)
def test_values_are_written_as_toml(value):
    assert tomllib.loads(f"value = {toml_value(value)}")["value"] == value
