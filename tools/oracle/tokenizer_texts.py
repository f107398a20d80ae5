"""Texts for the tokenizer goldens: a generated training corpus and a few hundred probes, all our own."""

import random

ENGLISH = """the a of to and in is it you that for on with as are this be at or from by not but what all were when we
there can an your which their said if do will each about how up out them then she many some so these would other into
has more her two like him see time could no make than first been its who now people my made over did down only way find
use may water long little very after words called just where most know get through back much before go good new write
our used me man too any day same right look think also around another came come work three word must because does part
even place well such here take why help put years away again off went old number great tell men say small every found
still between name should home big give air line set own under read last never us left end along while might next sound
below saw something thought both few those always looked show large often together asked house world going want school
important until form food keep children feet land side without boy once animal life enough took four head above kind
began almost live page got earth need far hand high year mother light country father let night picture being study
second soon story since white ever paper hard near sentence better best across during today however sure knew try told
young sun thing whole hear example heard several change answer room sea against top turned learn point city play toward
five himself usually money seen car morning body upon family later turn move face door cut done group true half red fish
plants living token block cache prefix kernel layer model index expert router latent weight scale stream server request
answer context window draft verify prefill decode shard tensor block eviction schedule queue""".split()
OTHER = """Straße über Größe naïve café façade élève señor niño coração ação œuvre Åland Øresund Łódź žluťoučký kůň
привет мир как дела сегодня быстрый коричневая лиса γειά σου κόσμε αβγδ שלום עולם مرحبا بالعالم كيف حالك नमस्ते दुनिया
हिन्दी भाषा ภาษาไทย สวัสดี tiếng Việt được không 你好 世界 北京 上海 天气 很好 模型 缓存 长上下文 注意力 中文测试 こんにちは 世界 カタカナ ひらがな
東京 日本語 안녕하세요 세계 한국어 😀 🚀 👩‍💻 🇩🇪 ✅ — … “quoted” ‘single’ ½ ² ₃ ™ © € £ ∑ ∫ ≤ ≥ → ★""".split()
CODE = """def return self None True False import from class for in if else elif while lambda yield assert print len range
int main() { } [] () => == != <= >= += -> :: // /* */ # \" ' ` ~ @ $ % ^ & | \\ ; : , . ? ! template<typename T>
std::vector<int> const auto& x = y + 1; std::unique_ptr<Block> foo_bar fooBar FooBar kPascalCase __init__ 0x1F 3.14 1e-5
{\"key\": \"value\", \"n\": 1.0} <b>bold</b> &amp; https://example.org/a?b=c user@example.org C++20 HTTP/1.1 200 OK""".split()


def corpus(lines=4000, seed=5):
    """Lines of words in mixed scripts for training small BPE models."""
    pick = random.Random(seed)
    out = []
    for _ in range(lines):
        source = pick.choices((ENGLISH, OTHER, CODE), (6, 2, 2))[0]
        words = [pick.choice(source) for _ in range(pick.randint(3, 14))]
        line = " ".join(words)
        if source is ENGLISH and pick.random() < 0.4:
            line = line.capitalize() + pick.choice(".?!") + f" {pick.randint(0, 99999)}"
        out.append(pick.choice(("", "    ", "\t")) + line + pick.choice(("\n", "\n\n", "")))
    return out


HAND_WRITTEN = [
    "", " ", "  ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "  \n  ", " \t \n\t x", "a", " a", "a ", "  a  ", "   a   b    c",
    "Hello, world!", "hello world", "HELLO WORLD", "Hello\nworld\n", "line one\r\nline two\r\n\r\nline three",
    "I'm you're he's they'll we've I'd can't", "I'M YOU'RE HE'S THEY'LL WE'VE I'D CAN'T", "'s't're've'm'll'd", "it''s 'quoted' o'clock",
    "’s curly it’s don’t", "'sss 'tttt 'realm 'vector", "x'S x'T x'RE", "ſ 'ſ 'K",
    "0", "12", "123", "1234", "12345", "1234567890", "3.14159", "1,000,000", "1e-5", "0x1F4", "v1.2.3", "a1b22c333d4444", "٣٤٥٦ ১২৩ ௧ Ⅷ ½ ²³ ①②③",
    "  leading", "trailing  ", "tabs\tand\tmore\t\tx", "mixed \t \n spaces \n\n\n end", "\u00a0no-break\u00a0space", "\u2003em\u2003space \u3000ideographic",
    "\u200bzero\u200bwidth", "\ufeffbom", "x\u0085next line", "x\u2028line separator\u2029para", "\x0b\x0c vertical and form feed", "\x00\x01\x1f\x7f control",
    "foo_bar __init__ fooBar FOO_BAR kebab-case snake_case9", "def f(x):\n    return x + 1\n\n\nclass A:\n\tpass\n",
    "if (a && b || !c) { x->y = z[0]; } // comment", "#include <vector>\n#define X(a) ((a)*2)\n", "{\"a\": [1, 2.5, null, true], \"b\": {\"c\": \"d\\n\"}}",
    "<html><body>&amp; &lt;tag&gt;</body></html>", "https://example.org/path?q=1&r=%20#frag", "user.name+tag@example.org", "C:\\dir\\file.txt /usr/local/bin ~/x",
    "!!!???...", "a!b?c.d,e;f:g", "...\n\n...", "!!\n", " !\n x", "$5.00 €3,50 £2 ¥100 ₹7", "a+b=c a-b a*b a/b a^b a%b", "--flag=value -x", "@user #tag", "*bold* _it_ `code` ~~s~~",
    "naïve café façade Straße", "cafe\u0301 nai\u0308ve A\u030a", "\u0301combining first", "e\u0301\u0327\u0302 stacked", "Å Å Å", "ﬁ ligature ﬀ", "Ǆ ǅ ǆ ß ẞ İ ı",
    "क्षत्रिय हिन्दी नमस्ते", "ภาษาไทยไม่มีช่องว่าง", "தமிழ் తెలుగు ಕನ್ನಡ", "שָׁלוֹם עולם", "مَرْحَبًا بالعالم", "Ελληνικά ΆΈΉ", "Русский текст, ёлка", "tiếng Việt được không", "ქართული Հայերեն",
    "你好,世界!", "你好，世界！", "中文和English混合text", "东京都に住んでいます。カタカナとひらがな", "今日は2024年12月31日です", "한국어 텍스트 123개", "한글 분해", "ㄱㄴㄷ ㅏㅑ", "漢字\u3400\u4dbf\u9fff\U00020000",
    "ｆｕｌｌｗｉｄｔｈ １２３", "々〆〇 ・ー ヽヾ", "。、「」『』", "龥龦 ぁゟ゠ヿ", "北京 <b>&'\"", "a你b好c",
    "😀", "😀😃😄", "👩‍💻 👨‍👩‍👧‍👦", "👍🏽 👍🏿", "🇩🇪🇫🇷🇯🇵", "☀️ ☀ ❤️", "emoji😀inside", "1️⃣ #️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "𝕌𝕟𝕚𝕔𝕠𝕕𝕖 𝓼𝓬𝓻𝓲𝓹𝓽", "𐍈𐌰 𓀀 𒀀", "ℵ ∀x∈ℝ ∑∫√ ≤≥≠ →⇒", "\ufffd replacement \ufffd\ufffd", "Ã© Ã¼ â€™ mojibake", "\ud7ff\ue000\uffff", "\U0010ffff",
    "[gMASK]<sop><|user|>hi<|assistant|><think>", "<|user|>", "a<|user|>b", " <|user|> ", "<|user|><|user|>", "<|user |>", "<|user|", "<think>why</think>because", "<think", "x<think>y",
    "<tool_call>get<arg_key>city</arg_key><arg_value>北京</arg_value></tool_call>", "<|endoftext|>", "text<|endoftext|>text\n<|endoftext|>\n", "[MASK] [gMASK] <sop>", "/nothink", "say /nothink now",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "<｜User｜>hello<｜Assistant｜><think>\n", "<｜begin▁of▁sentence｜>x<｜end▁of▁sentence｜>", "<|strip|>", "a <|strip|> b", "a  \n<|strip|>\n  b",
    "whole", "wholesome whole", "word boundary whole.", "NORM Å norm", "a Å b", "Normợ Normo\u031b\u0323 cafe\u0301",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababab", "the the the the", "thethethethe", "                                ", "\n\n\n\n\n\n\n\n", "=" * 70, "-" * 33 + "\n", ". " * 20, "\t" * 9 + "x",
]


def probes(seed=9, random_texts=120):
    """The hand-written texts and random mixtures of scripts, spaces, digits and added tokens."""
    pick = random.Random(seed)
    pieces = ENGLISH + OTHER + CODE + ["<|user|>", "<think>", "</think>", "<|endoftext|>", "[gMASK]", "<｜User｜>"]
    spaces = ["", " ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", " \n ", "\u00a0", "'", "'s ", "1", "42", "2024", "\u0301", "_", "."]
    out = list(HAND_WRITTEN)
    for _ in range(random_texts):
        out.append("".join(pick.choice(pieces) + pick.choice(spaces) for _ in range(pick.randint(1, 12))))
    ranges = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0xDFF), (0xE00, 0xEFF),
              (0x2000, 0x2BFF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1FAFF), (0x10000, 0x1FFFF)]
    for _ in range(60):
        chosen = [pick.choice(ranges) for _ in range(3)] + [(0x20, 0x20), (0x0A, 0x0A)]
        out.append("".join(chr(pick.randint(*pick.choice(chosen))) for _ in range(pick.randint(5, 40))))
    return list(dict.fromkeys(out))
