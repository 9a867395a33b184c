from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.exceptions import InputError
from cnp_router.sources.input_check import input_check
from cnp_router.sources.patterns import Matcher, PatternError

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
HOSTILE = "a" * 60 + "!"


def of(schema, name="it"):
    return {"type": "object", "properties": {name: schema}}


def check(schema, value):
    return input_check(of(schema))({"it": value})


def told(schema, inputs):
    """Check, whatever comes of it: a matcher may be clever, but has to end."""
    try:
        return input_check(schema)(inputs)
    except InputError as exc:
        return str(exc)


def found(pattern, text):
    return Matcher(0.5).is_found(pattern, text)


def refused(schema, value):
    with pytest.raises(InputError) as caught:
        check(schema, value)
    return str(caught.value)


class TestInputs:
    @pytest.mark.parametrize(
        ("schema", "value", "said"),
        [
            ({"type": "string"}, 9, "inputs.it: 9 is not of type 'string'"),
            ({"enum": ["a", "b"]}, "c", "inputs.it: 'c' is not one of ['a', 'b']"),
            ({"items": {"type": "integer"}}, [1, "x"], "inputs.it[1]: 'x' is not of type"),
            ({"maximum": 5}, 6, "inputs.it: 6 is greater than the maximum of 5"),
            ({"pattern": "^[a-z]+$"}, "A", "inputs.it: 'A' does not match '^[a-z]+$'"),
            ({"uniqueItems": True}, [{"a": 1}, {"a": 1}], "has the same item twice"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "inputs.it: 1 is not"),
        ],
    )  # fmt: skip
    def test_place_and_what_came_and_what_is_wanted(self, schema, value, said):
        assert said in refused(schema, value)

    def test_parameters_that_are_missing_or_unknown(self):
        closed = {**of({"type": "string"}), "required": ["it"], "additionalProperties": False}
        with pytest.raises(InputError, match="inputs: 'it' is a required property"):
            input_check(closed)({})
        with pytest.raises(
            InputError, match=r"inputs: 'that' is not a parameter \(it takes 'it'\)"
        ):
            input_check(closed)({"it": "", "that": 1})
        with pytest.raises(InputError, match=r"it takes nothing"):
            input_check({"additionalProperties": False})({"that": 1})
        with pytest.raises(InputError, match=r"inputs.that: 1 is not of type 'string'"):
            input_check({"additionalProperties": {"type": "string"}})({"that": 1})

    def test_pattern_properties(self):
        schema = {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}
        assert input_check(schema)({"x-a": "b"}) == ()
        with pytest.raises(InputError, match=r"inputs.x-a: 1 is not of type"):
            input_check(schema)({"x-a": 1})
        with pytest.raises(InputError, match="'y' is not a parameter"):
            input_check(schema)({"y": 1})

    @pytest.mark.parametrize("inputs", [{"it": float("nan")}, {1: "x"}, [1], {"it": {1, 2}}])
    def test_what_is_not_json(self, inputs):
        with pytest.raises(InputError, match="inputs"):
            input_check(None)(inputs)

    def test_as_they_are_sent(self):
        assert check({"type": "array"}, (1, 2)) == ()

    def test_no_schema_takes_any_object(self):
        assert input_check(None)({"anything": [1]}) == ()

    def test_a_message_is_short_and_harmless(self):
        said = refused({"type": "integer"}, "\x1b[31m" + "a" * 10_000)
        assert len(said) <= 300
        assert "\x1b" not in said

    def test_the_draft_that_is_named(self):
        both = {**of({"items": [{"type": "string"}]}), "$schema": DRAFT_7}  # not so since 2020-12
        with pytest.raises(InputError, match=r"inputs.it\[0\]: 1 is not"):
            input_check(both)({"it": [1]})
        for odd in ("https://example.com/mine", 3, {}):
            try:
                named = input_check({**of({"type": "string"}), "$schema": odd})
            except InputError as exc:
                assert "not a JSON Schema" in str(exc)
                continue
            with pytest.raises(InputError, match="is not of type"):
                named({"it": 1})

    def test_it_is_made_once_for_each_schema(self):
        assert input_check(of({"type": "string"})) is input_check(of({"type": "string"}))


class TestSchemas:
    @pytest.mark.parametrize(
        "schema",
        [{"type": "strin"}, {"type": 5}, {"properties": []}, {"required": "it"}, {"$ref": 3}],
    )
    def test_one_that_is_none(self, schema):
        with pytest.raises(InputError, match="not a JSON Schema"):
            input_check(schema)

    def test_one_that_is_too_deep_or_too_long(self):
        deep: dict = {}
        for _ in range(400):
            deep = {"properties": {"a": deep}}
        with pytest.raises(InputError, match="too deep"):
            input_check(deep)
        with pytest.raises(InputError, match="a schema of 500,"):
            input_check({"description": "a" * 500_000})

    def test_references(self):
        schema = {**of({"$ref": "#/$defs/zone"}), "$defs": {"zone": {"type": "string"}}}
        with pytest.raises(InputError, match=r"inputs.it: 1 is not of type 'string'"):
            input_check(schema)({"it": 1})

    @pytest.mark.parametrize(
        "reference", ["http://127.0.0.1:1/s.json", "file:///etc/passwd", "#/$defs/no", "other.json"]
    )
    def test_nothing_is_fetched(self, reference):
        (note,) = check({"$ref": reference}, 1)
        assert note == f"not checked: what {reference!r} refers to is not in the schema"

    def test_a_circle(self):
        tree = {"properties": {"it": {"$ref": "#"}}, "additionalProperties": False}
        with pytest.raises(InputError, match=r"inputs.it.it: 'x' is not a parameter"):
            input_check(tree)({"it": {"it": {"x": 1}}})
        with pytest.raises(InputError, match="too deep or too large"):
            input_check({"allOf": [{"$ref": "#"}]})({})


class TestCost:
    """None of these takes long: without bounds, each would take years."""

    def test_a_schema_that_doubles_with_each_level(self):
        levels = {
            f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(40)
        } | {"l40": {}}  # fmt: skip
        with pytest.raises(InputError, match="too deep or too large"):
            input_check({"$ref": "#/$defs/l0", "$defs": levels})({})
        with pytest.raises(InputError, match="too deep or too large"):
            input_check({"unevaluatedProperties": False, "$ref": "#/$defs/l0", "$defs": levels})(
                {"a": 1}
            )

    @pytest.mark.parametrize(
        "where",
        [
            lambda bad: of({"$schema": DRAFT_7, **bad}),
            lambda bad: {"$schema": DRAFT_7, "properties": {"it": bad, "that": {"$ref": "#"}}},
            # The metaschema comes back to it, by a name that it gives itself.
            lambda bad: (
                of(bad)
                | {
                    "$id": "http://127.0.0.1:1/mine",
                    "$dynamicAnchor": "meta",
                    "$ref": "https://json-schema.org/draft/2020-12/meta/applicator",
                }
            ),
        ],
        ids=["within", "the whole", "the metaschema"],
    )
    def test_a_pathological_pattern_beside_a_draft(self, where):
        for inputs in ({"it": HOSTILE}, {"that": {"it": HOSTILE}}, {"not": {"it": HOSTILE}}):
            told(where({"pattern": "^(a+)+$"}), inputs)

    @pytest.mark.parametrize("pattern", ["^(a|a)*$", "(.*a){30}$", "^(a?){60}a{60}$"])
    @pytest.mark.parametrize("keyword", ["pattern", "patternProperties", "additionalProperties"])
    def test_a_pathological_pattern(self, pattern, keyword):
        if keyword == "pattern":
            told(of({"pattern": pattern}), {"it": HOSTILE})
            return
        schema = {"patternProperties": {pattern: {}}}
        if keyword == "additionalProperties":
            told(schema | {"additionalProperties": False}, {HOSTILE: 1})
        else:
            told(schema, {HOSTILE: 1})
            notes = input_check(schema | {"unevaluatedProperties": True})({HOSTILE: 1})
            assert any("unevaluatedProperties" in note for note in notes)

    def test_a_large_array_of_objects(self):
        with pytest.raises(InputError, match="has the same item twice"):
            check({"uniqueItems": True}, [*({"n": n} for n in range(5_000)), {"n": 1}])

    @pytest.mark.parametrize("pattern", ["^(a|a)*$", "^((a{1,100}){1,100}){1,100}$"])
    def test_a_pattern_that_takes_too_long_is_left_to_the_tool(self, pattern):
        for schema in (
            of({"pattern": pattern}, HOSTILE),
            {"patternProperties": {pattern: False}},
            {"patternProperties": {pattern: False}, "additionalProperties": False},
        ):
            value = HOSTILE if "properties" in schema else 1
            (note,) = input_check(schema)({HOSTILE: value})
            assert note.endswith("it takes too long to match")

    def test_all_patterns_together_have_a_time(self):
        matcher = Matcher(0.05)
        for _ in range(2):
            with pytest.raises(PatternError, match="too long"):
                matcher.is_found("^(a|a)*$", HOSTILE)
        with pytest.raises(PatternError, match="too long"):
            matcher.is_found("a", "a")

    def test_a_literal_in_a_long_text(self):
        with pytest.raises(PatternError, match="too long"):
            found("b" + "a" * 1_900, "a" * 1_000_000)


class TestPatterns:
    @pytest.mark.parametrize(
        ("pattern", "yes", "no"),
        [
            ("^[a-z0-9]+(-[a-z0-9]+)*$", ["a-b-c"], ["a--b", "-a"]),
            (r"^\d{4}-\d{2}(-\d{2})?$", ["2026-11", "2026-11-22"], ["2026-1", "٢٠٢٦-11"]),
            ("b{2,3}$", ["abb", "bbbbb"], ["ab", ""]),
            ("^(?:ab|a)(?:c|bcd)$", ["abc", "ac", "abcd", "abbcd"], ["ab", "abd"]),
            (r"\bcat\b", ["a cat.", "cat"], ["cats", "concat"]),
            (r"\Bat", ["cat"], ["at"]),
            (r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", ["a@b.org"], ["a@b", "a b@c.org"]),
            (r"^(?=.*\d)(?!.*x).{3,}$", ["ab1"], ["abc", "1x2"]),
            (r"(?<=a)b", ["ab"], ["cb"]),
            (r"(?<!a)b", ["cb", "b"], ["ab"]),
            (r"^(?<year>\d+)$", ["12"], ["x"]),
            (r"^(?P<year>\d+)$", ["12"], ["x", "12\n"]),
            ("^(?:" + "()" * 160 + "a){9}$", ["a" * 9], ["a" * 8]),
            (r"^\p{L}{2}$", ["aé"], ["a1"]),
            (r"^\(?[($]\$$", ["(($", "$$"], ["a$"]),
            ("^{{[a-z]+}}{e}$", ["{{a}}{e}"], ["{a}{e}", "{{a}}e"]),
            (r"^\/[\w.\-/]*$", ["/a/b.c"], ["a"]),
            ("^$", [""], ["a", "\n"]),
            ("", ["", "a"], []),
            ("^(|a)*?b", ["aab", "b"], ["a"]),
            (r"^\S\D\W.$", ["a, x"[:1] + "b" + "-" + "z"], ["a1-z", " b-z"]),
            ("^.$", ["\u2028", "é"], ["\n"]),
        ],
    )
    def test_what_matches(self, pattern, yes, no):
        for text in yes:
            assert found(pattern, text), text
        for text in no:
            assert not found(pattern, text), text

    @pytest.mark.parametrize(
        ("pattern", "said"),
        [
            (r"^\cA$", "bad escape"),
            ("[^]", "JavaScript"),
            ("(", "missing"),
            ("a{2,1}", "min repeat"),
            (r"(a)\1", "invalid group reference"),
            ("(a|(?R))", "flags"),
            ("((a{1000}){1000}){1000}", "repeats are too many"),
            ("(?:" + "()" * 160 + "){500}", "repeats are too many"),
            ("a{1000000}", "repeats are too many"),
            ("(?i)a", "flags"),
            ("(?i:a)", "flags"),
            ("a" * 2_001, "longer than 2,000"),
            ("(" * 900 + ")" * 900, "too deep|nested"),
        ],
    )
    def test_what_cannot_be_matched(self, pattern, said):
        with pytest.raises(PatternError, match=said):
            found(pattern, "aab")

    @given(
        st.text("ab|()*?+.^$[]{1,2}", max_size=12), st.text("ab\n", max_size=8)
    )  # fmt: skip
    def test_it_is_found_where_python_finds_it(self, pattern, text):
        try:
            with warnings.catch_warnings(action="ignore"):
                expected = re.search(pattern.replace("$", r"\Z"), text) is not None
            here = found(pattern, text)
        except (re.error, PatternError, OverflowError):
            return
        # There, a dollar is a dollar, and JavaScript has no repeat without a least number.
        if "[" not in pattern and "{," not in pattern:
            assert here is expected
