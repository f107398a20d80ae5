"""Small chat-template snippets, one construct each, in groups: (template, variables)."""

PEOPLE = [{"name": "Ana", "age": 3, "tags": ["x", "y"]}, {"name": "bob", "age": 1, "tags": []},
          {"name": "Cyd", "age": 2}]
MESSAGES = [{"role": "system", "content": "S"}, {"role": "user", "content": "U1"},
            {"role": "assistant", "content": "<think>R</think>\n\nA1"}, {"role": "tool", "content": "T1"},
            {"role": "tool", "content": "T2"}, {"role": "user", "content": "U2"}]
V = {"messages": MESSAGES, "people": PEOPLE, "s": "Hello World", "n": 7, "f": 2.5, "b": True, "z": None, "e": "",
     "d": {"b": 1, "a": "x", "c": [1, 2, 3]}, "l": [3, 1, 2, 1], "t": "  padded \n"}


def with_values(*templates):
    return [(template, V) for template in templates]


OUTPUT = with_values(
    "{{ s }}", "{{ n }} {{ f }} {{ b }} {{ z }} [{{ e }}]", "{{ l }} {{ d }}", "{{ missing }}|", "{{ d.b }} {{ d['a'] }} {{ d.c[1] }} {{ d.c.0 }}",
    "{{ messages[0].role }} {{ messages[-1].content }} {{ messages[0]['content'] }}", "{{ d.missing }}|{{ d['missing'] }}|",
    "{{ 1 }} {{ 1.0 }} {{ 1e20 }} {{ 0.1 }} {{ 1e-7 }} {{ 100000000000000000000.0 }} {{ 123456789012 }}", "{{ true }} {{ false }} {{ none }} {{ True }} {{ None }}",
    "{{ 'a' 'b' }}", "{{ 'it''s' }}", "{{ \"q\\\"uote\\n\" }}", "{{ 'tab\\tx' }}", "{{ '\\u4f60' }}", "{{ [1, 'a', none, 2.0, [true]] }}", "{{ {'k': 'v', 'n': [1]} }}", "{{ (1, 2) }} {{ (1,) }} {{ () }}",
    "{{ \"it's\" }} {{ [\"it's\", 'q\"'] }}")

OPERATORS = with_values(
    "{{ 1 + 2 * 3 - 4 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 8 / 2 }}", "{{ 'a' + 'b' }} {{ 'a' ~ 1 ~ none ~ true ~ 1.5 }} {{ 'ab' * 3 }}",
    "{{ [1] + [2] }} {{ l + [9] }}", "{{ 1 < 2 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ 1 != 2 }} {{ 3 >= 3 }} {{ n > 5 and n < 10 }}", "{{ not b }} {{ not e }} {{ b and s }} {{ e or 'default' }} {{ z or 0 or 'x' }} {{ n and z }}",
    "{{ 'World' in s }} {{ 'x' not in s }} {{ 3 in l }} {{ 'b' in d }} {{ 'zz' in d }}", "{{ 'yes' if b else 'no' }} {{ 'only' if e }}| {{ ('a' if e else 'b') ~ 'c' }}", "{{ 'x' if missing is defined else 'undef' }}",
    "{{ 1 if n is odd else 2 }} {{ n is even }} {{ n is divisibleby 7 }}", "{{ (1 + 2) * 3 }} {{ -n }} {{ +n }} {{ - (2 ** 2) }}", "{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[:-3] }} {{ s[::2] }}",
    "{{ l[1:] }} {{ l[:2] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[5:] }} {{ l[1:100] }} {{ l[-1:0:-1] }}", "{{ messages[::-1][0].content }} {{ (messages | length - 1) }}", "{{ 1 == true }} {{ '1' == 1 }} {{ none == false }} {{ [] == [] }} {{ {'a': 1} == {'a': 1} }}")

TESTS = with_values(
    "{{ s is string }} {{ n is string }} {{ d is mapping }} {{ l is mapping }} {{ l is iterable }} {{ s is iterable }} {{ d is iterable }} {{ n is iterable }}", "{{ n is number }} {{ b is number }} {{ f is float }} {{ n is integer }} {{ b is integer }} {{ b is boolean }}",
    "{{ z is none }} {{ missing is none }} {{ z is defined }} {{ missing is defined }} {{ missing is undefined }} {{ d.a is defined }} {{ d.q is not defined }}", "{{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }}",
    "{{ b is true }} {{ b is false }} {{ e is false }} {{ n is true }}", "{{ n is eq 7 }} {{ n is equalto 8 }} {{ n is ne 8 }} {{ n is gt 5 }} {{ n is lt 5 }} {{ n is ge 7 }} {{ n is le 6 }}", "{{ 3 is in l }} {{ 'q' is in(d) }} {{ 'ABC' is upper }} {{ 'abc' is lower }}",
    "{{ s is not string }} {{ z is not none }} {{ not s is string }}", "{{ messages[0].tool_calls is defined and messages[0].tool_calls is not none }}", "{{ raise_exception is callable }} {{ s is callable }}", "{{ z is sameas none }} {{ b is sameas true }} {{ 1 is sameas true }}")

FILTERS = with_values(
    "{{ s | upper }} {{ s | lower }} {{ s | length }} {{ l | length }} {{ d | length }} {{ s | count }}", "{{ 'hELLO wORLD' | capitalize }} {{ 'hello wORLD' | title }}", "[{{ t | trim }}] [{{ 'xxaxx' | trim('x') }}]", "{{ l | join }} {{ l | join(', ') }} {{ people | join(', ', attribute='name') }}",
    "{{ s | replace('l', 'L') }} {{ s | replace('l', 'L', 1) }}", "{{ missing | default('d') }} {{ z | default('d') }} {{ z | default('d', true) }} {{ e | default('d', true) }} {{ e | d('q') }}", "{{ l | first }} {{ l | last }} {{ s | first }} {{ [] | first }}|",
    "{{ l | sort }} {{ l | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }}", "{{ people | sort(attribute='age') | map(attribute='name') | list }}", "{{ l | unique | list }} {{ l | sum }} {{ l | min }} {{ l | max }} {{ people | sum(attribute='age') }}",
    "{{ people | map(attribute='age') | list }} {{ people | map(attribute='tags', default='-') | list }}", "{{ ['a', 'b'] | map('upper') | list }} {{ ['a', 'b'] | map('upper') | join('+') }}", "{{ people | selectattr('tags') | map(attribute='name') | list }} {{ people | rejectattr('tags') | map(attribute='name') | list }}",
    "{{ people | selectattr('age', 'gt', 1) | map(attribute='name') | join(',') }}", "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}", "{{ messages | rejectattr('role', 'in', ['user', 'tool']) | list | length }}", "{{ l | select('odd') | list }} {{ l | reject('odd') | list }} {{ l | select('gt', 1) | list }}",
    "{{ ['a', '', none, 'b'] | select | list }}", "{{ d.keys() | reject('in', ['a']) | list }}", "{{ l | reverse | list }} {{ s | reverse }}", "{{ d | items | list }} {{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }} {{ d | dictsort }} {{ d | list }}",
    "{{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 'dflt') }}", "{{ n | string ~ 'x' }} {{ '12' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '1.5' | float }} {{ 3.7 | int }} {{ 3.456 | round(1) }} {{ 3.5 | round }} {{ -3 | abs }}", "{{ s | list | length }} {{ 'abc' | list }}",
    "{{ s | wordcount }} {{ 'a b c' | truncate(3, true, '') }}", "{{ '<a&b>' | escape }} {{ '<a>' | e }} {{ '<a>' | safe }}", "{{ 'l1\nl2\n\nl3' | indent }}|{{ 'l1\nl2' | indent(2, true) }}|{{ 'l1\n\nl2' | indent(width=3, first=False, blank=true) }}", "{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | slice(2) | list }}",
    "{{ people | groupby('age') | map(attribute='grouper') | list }}", "{{ '%s=%d' | format('a', 3) }} {{ '%05.2f' | format(3.14159) }}", "{{ 'a,b' | string | upper | lower | length }}", "{% filter upper %}inside {{ s }}{% endfilter %}", "{{ d | tojson | length }}", "{{ s | urlencode }} {{ 'a b&c=ü' | urlencode }}", "{{ {'a': {'b': 2}} | attr('items') is defined }}", "{{ [[1, 2], [3]] | sum(start=[]) }}")

METHODS = with_values(
    "{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ 'abc'.capitalize() }} {{ 'aBc'.swapcase() }}", "[{{ t.strip() }}] [{{ t.lstrip() }}] [{{ t.rstrip() }}] [{{ '\n\nxy\n'.lstrip('\n') }}] [{{ 'xyaxy'.strip('yx') }}]", "{{ s.startswith('He') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'H')) }} {{ s.find('o') }} {{ s.find('q') }} {{ s.count('l') }} {{ s.index('W') }}",
    "{{ s.split() }} {{ s.split('o') }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b '.split() }} {{ ' a  b '.split(' ') }}", "{{ messages[2].content.split('</think>')[-1].lstrip('\n') }}", "{{ messages[2].content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}",
    "{{ 'x'.join(['a', 'b']) }} {{ s.replace('o', '0') }} {{ s.replace('o', '0', 1) }}", "{{ 'a\nb\r\nc'.splitlines() }}", "{{ '{} and {}'.format(1, 'b') }} {{ '{k}'.format(k=2) }}", "{{ '12'.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }}", "{{ 'ab'.zfill(4) }} {{ 'ab'.ljust(4) }}| {{ 'ab'.rjust(4) }} {{ 'ab'.center(6, '*') }}",
    "{{ s.partition(' ') }} {{ 'ab'.removeprefix('a') }} {{ 'ab'.removesuffix('b') }}", "{{ l.index(1) }} {{ l.count(1) }}", "{{ d.items() | map('first') | list }} {{ d.copy() }}")

STATEMENTS = with_values(
    "{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}", "{% if missing %}yes{% else %}no{% endif %}{% if l %}l{% endif %}{% if not {} %}empty{% endif %}", "{% for x in l %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}", "{% for x in [] %}{{ x }}{% else %}nothing{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }};{% endfor %}", "{% for x in l %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }} {% endfor %}",
    "{% for m in messages %}[{{ loop.previtem.role if loop.previtem is defined else '-' }}<{{ m.role }}>{{ loop.nextitem.role if not loop.last else '-' }}]{% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }} {% endfor %}", "{% for m in messages if m.role == 'user' %}{{ loop.index }}:{{ m.content }}/{{ loop.length }} {% endfor %}",
    "{% for x in range(3) %}{{ x }}{% endfor %} {% for x in range(2, 8, 3) %}{{ x }}{% endfor %} {% for x in range(3, 0, -1) %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for a in [1, 2, 3] %}{% for c in 'xyz' %}{% if c == 'y' %}{% break %}{% endif %}{{ a }}{{ c }} {% endfor %}{% if a == 2 %}{% break %}{% endif %}{% endfor %}end", "{% for a in [1, 2] %}{% for c in [3, 4] %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}", "{% for p in people %}{% set outer = loop %}{% for x in p.tags or [] %}{{ outer.index }}.{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for (a, c) in [(1, 2), (3, 4)] %}{{ a + c }} {% endfor %}", "{% for c in s %}{{ c }}-{% endfor %}", "{% set x = 1 %}{% set y, w = 2, 3 %}{{ x + y + w }}", "{% set x %}block {{ s }}{% endset %}[{{ x }}]", "{% set x | upper %}block{% endset %}{{ x }}",
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}", "{% set x = 1 %}{% if b %}{% set x = 2 %}{% endif %}{{ x }}", "{% for m in messages %}{% if m.role == 'user' %}{% set r = m.content %}{% endif %}{{ r is defined }} {% endfor %}", "{% set ns = namespace(x=0, seen=[]) %}{% for i in l %}{% set ns.x = ns.x + i %}{% set ns.seen = ns.seen + [i] %}{% endfor %}{{ ns.x }} {{ ns.seen }}",
    "{% set ns = namespace() %}{% set ns.a = 'v' %}{{ ns.a }} {{ ns.b is defined }}", "{% set ns = namespace({'k': 1}) %}{{ ns.k }}", "{% macro m(a, c='dflt') %}<{{ a }}|{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(c=5, a=4) }}{{ m() }}", "{% macro m(x) %}{{ x }}{{ s }}{% endmacro %}{{ m('a') | upper }} {{ m('b') ~ '!' }} {{ 'y' if m('') else 'n' }}",
    "{% macro empty(x) -%}{%- if x -%}t{%- endif -%}{%- endmacro %}{{ 'y' if empty(false) else 'n' }}{{ 'y' if empty(true) else 'n' }}", "{% macro fact(k) %}{{ 1 if k < 2 else k * (fact(k - 1) | int) }}{% endmacro %}{{ fact(5) }}", "{% macro outer() %}[{{ caller() }}]{% endmacro %}{% call outer() %}in{% endcall %}", "{% macro va() %}{{ varargs | join('-') }} {{ kwargs | dictsort }}{% endmacro %}{{ va(1, 2, k=3) }}",
    "{% macro seen() %}{{ later }}{% endmacro %}{% set later = 'set after' %}{{ seen() }}|", "{% raw %}{{ not rendered }}{% endraw %}", "{# comment #}a{# multi\nline #}b", "{% with q = 5 %}{{ q }}{% endwith %}{{ q is defined }}", "{% generation %}gen {{ s }}{% endgeneration %}", "{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y %H:%M:%S %A %B %j') }}",
    "{% if messages[0]['role'] == 'system' %}{% set sys = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ sys }}{{ rest | length }}", "{% set d2 = dict(a=1, b='x') %}{{ d2 }} {{ dict(d, z=9) }}", "{% set j = joiner('; ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}")

WHITESPACE = with_values(
    "a\n{% if b %}\nb\n{% endif %}\nc\n", "a\n  {% if b %}\n  b\n  {% endif %}\nc", "a\n{%- if b -%}\n  b  \n{%- endif -%}\nc", "  {{ s }}  \n  {{- n -}}  \n  x", "a {%- set x = 1 %} b {% set y = 2 -%} c", "a\n{# comment #}\nb\n{#- tight -#}\nc", "{% for x in l %}\n  - {{ x }}\n{% endfor %}\nend", "{% for x in l -%}\n  {{ x }}\n{%- endfor %}",
    "\n\n{{ s }}\n\n", "{{ s }}\n", "{{ s }}\n\n", "x\n{%+ if b %}\ny{% endif %}", "x\n   {%+ if b +%}\n y\n{% endif %}", "\t{% if b %}\n\ttab\n\t{% endif %}\n", "line{% if b %}\nsame{% endif %}\nnext", "{{ 'a' }}\r\n{% if b %}\r\nb\r\n{% endif %}\r\nc", "{%- for x in l %}\n\n{{ x }}\n\n{%- endfor -%}\n", "{{- '' }}\n{{ '' -}}\nx", "{% macro m() %}\n  body\n{% endmacro %}\n[{{ m() }}]", "{% set x %}\n  in\n{% endset %}\n[{{ x }}]", "a {{ s }}{# c #} b\n   {# own line #}\n d")

JSON_VALUES = {"t": {"d": "北京 <b>&'\"", "n": 1.0}, "mixed": {"z": 1, "a": [True, False, None, 1.5, -0.0, 1e22, 1e-7, 123456789012345678], "m": {}, "e": [], "é": "ü\u2028\x01\t\n\\/"},
               "deep": {"type": "object", "properties": {"p": {"type": "string", "enum": ["a", "b"]}}, "required": ["p"]}, "emoji": "😀", "num": 5, "flt": 3.0, "list": [1, [2, [3]]], "text": "a\"b"}
JSON = [(template, JSON_VALUES) for template in (
    "{{ t | tojson(ensure_ascii=False) }}", "{{ t | tojson }}", "{{ t | tojson(ensure_ascii=True) }}", "{{ mixed | tojson }}", "{{ mixed | tojson(indent=2) }}", "{{ mixed | tojson(indent=4, ensure_ascii=True) }}", "{{ deep | tojson }}", "{{ deep | tojson(indent=2) }}", "{{ deep | tojson(separators=(',', ':')) }}", "{{ deep | tojson(separators=(', ', ': '), sort_keys=True) }}",
    "{{ mixed | tojson(sort_keys=true) }}", "{{ emoji | tojson }} {{ emoji | tojson(ensure_ascii=true) }}", "{{ num | tojson }} {{ flt | tojson }} {{ text | tojson }} {{ none | tojson }} {{ true | tojson }}", "{{ list | tojson }} {{ list | tojson(indent=1) }}", "{{ [] | tojson(indent=2) }} {{ {} | tojson(indent=2) }}", "{{ {'k': t, 'q': 1} | tojson }}", "{{ (1, 2) | tojson }}", "{{ 'x' ~ (num | tojson) ~ 'y' }}", "{{ t | tojson(indent=none) }}", "{{ t | string }} {{ mixed.a }}")]

ERRORS = with_values(
    "{{ raise_exception('bad role') }}", "{% if messages[0].role != 'user' %}{{ raise_exception('first must be user, got ' ~ messages[0].role) }}{% endif %}", "{{ missing.attribute }}", "{{ missing['x']['y'] }}", "{{ 1 + 'a' }}", "{{ none + 1 }}", "{{ s | nosuchfilter }}", "{{ s is nosuchtest }}", "{% if %}", "{% for x in l %}", "{{ unclosed", "{% endfor %}", "{{ t | tojson(bogus=1) }}", "{{ n() }}", "{{ 'a'.nosuch() }}", "{% unknown_tag %}", "{{ 1 / 0 }}", "{% for x in n %}{% endfor %}", "{{ l.append(5) }}", "{% for a, c in [(1, 2, 3)] %}{% endfor %}", "{{ s[0 }}", "{{ missing() }}", "{{ messages | map(attribute='role') + 'x' }}")

GROUPS = {"output": OUTPUT, "operators": OPERATORS, "tests": TESTS, "filters": FILTERS, "methods": METHODS, "statements": STATEMENTS, "whitespace": WHITESPACE, "tojson": JSON, "errors": ERRORS}
