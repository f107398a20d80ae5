"""The language of the recall tasks: words, keys, values, statements and questions.

One definition serves training (as token tables, assembled on the GPU by recall_rows.py) and evaluation
(as text, tools/eval): a *fact* binds a key to a value in a statement; a question or a repeated
statement asks for the value. Key pairs whose indices fall in the held-back tenth never occur in
training.
"""

# (before key, between key and value, after value, key style, value style). Styles: "lead" is preceded
# by a space, "bare" is not.
PHRASE_STATEMENTS = [
    ("The pass code for", " is", ".\n", "lead", "lead"),
    ("Remember that the secret value of", " is", ".\n", "lead", "lead"),
    ("Note: the entry for", " equals", ".\n", "lead", "lead"),
    ("In this document", " is recorded as", ".\n", "lead", "lead"),
    ("Entry", ":", "\n", "lead", "lead"),
    ("The register lists", " under", ".\n", "lead", "lead"),
]
CODE_STATEMENTS = [
    ("", " =", "\n", "bare", "lead"),
    ("", ":", ",\n", "bare", "lead"),
    ("#define", "", "\n", "lead", "lead"),
    ("const", " =", ";\n", "lead", "lead"),
    ("assert", " ==", "\n", "lead", "lead"),
    ("set", " to", "\n", "lead", "lead"),
]
# The lead form of a parameter list carries its opening parenthesis: the two are one token.
SIGNATURES = [("def", "", "):\n", "lead", "lead"), ("function", "", ") {\n", "lead", "lead")]
# (before key, after key): asked in a chat turn; the answer is the bare value.
QUESTIONS = [
    ("What is the pass code for", "?"),
    ("What is the value of", "?"),
    ("Look up", "."),
    ("Which value belongs to", "?"),
    ("Tell me the entry for", "."),
]
SIGNATURE_QUESTIONS = [("What are the parameters of", "?"), ("Look up", ".")]
THOUGHT = ("The user asks for", ".")

EXTRA_WORDS = (
    "amber falcon cedar meadow harbor lantern copper violet thunder orchid pepper canyon glacier willow marble saffron "
    "ember comet juniper velvet quartz raven tulip maple cobalt breeze hazel onyx pebble summit walrus badger otter "
    "heron lynx bison gecko panda koala ferret magpie sparrow condor beetle cricket hornet lizard tortoise dolphin "
    "octopus lobster oyster salmon herring turnip radish carrot spinach parsley mustard ginger nutmeg vanilla walnut "
    "almond cherry apricot mango papaya lemon quince fig olive barley wheat clover thistle nettle fern moss ivy "
    "granite basalt slate gravel pewter bronze silver nickel tin zinc ruby topaz opal jade coral pearl ivory crimson "
    "scarlet indigo azure teal umber sepia ochre maroon plum lilac sunny misty frosty rainy windy quiet rapid gentle "
    "clever brave silent hidden ancient golden wooden hollow narrow crooked dusty rusty polished broken floating "
    "sleeping dancing singing wandering northern southern eastern western inner outer upper lower castle bridge tower "
    "tunnel valley island desert forest garden orchard village market station museum library theater chapel cottage "
    "anchor compass rudder mast sail oar kettle ladle mirror candle basket blanket pillow hammer chisel anvil bellows"
).split()


def word_list(tokenizer):
    """Lower-case words: every vocabulary entry that is a whole word of 4+ letters, then EXTRA_WORDS."""
    vocabulary = sorted(
        piece[1:] for piece in tokenizer.get_vocab()
        if piece.startswith("Ġ") and len(piece) >= 5 and piece[1:].isascii() and piece[1:].isalpha() and piece[1:].islower()
    )
    known = set(vocabulary)
    return vocabulary + [w for w in EXTRA_WORDS if w not in known]


def is_held_back_pair(a, b):
    """a, b: indices into word_list (ints or tensors)."""
    return (a * 31 + b * 17) % 10 == 3
