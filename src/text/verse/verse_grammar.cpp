#include "rapt/text/verse_grammar.h"

#include <algorithm>

#include "rapt/error.h"

namespace rapt::text {
namespace {

// A foot is an unstressed syllable and a stressed one. Lists of words are named by what they hold
// and by their syllables: quiet_ has two, the first stressed; begins_ two, the second stressed.
// `hill_a` and `hill_b` are the first and the second words of rhymes.
constexpr std::string_view kVerse = R"(
stanza = 4 <couplet> / <couplet> // | 3 <nested> // | 3 <ballad> //

couplet = <scene4> <hill_a>, / <scene4> <hill_b>.
        | <scene4> <shore_a>, / <scene4> <shore_b>.
        | <scene4> <lane_a>, / <scene4> <lane_b>.
        | <scene4> <street_a>, / <scene4> <street_b>.
        | <scene4> <town_a>, / <scene4> <town_b>.
        | <scene4> <stair_a>, / <scene4> <stair_b>.
        | 2 <deed4> <sing_a>, / <deed4> <sing_b>.
        | <deed4> <grow_a>, / <deed4> <grow_b>.
        | 2 <deed4> <play_a>, / <deed4> <play_b>.
        | <deed4> <sleep_a>, / <deed4> <sleep_b>.
        | <deed4> <turn_a>, / <deed4> <turn_b>.
        | <deed4> <shake_a>, / <deed4> <shake_b>.

nested = <scene4> <hill_a>, / <within> / <scene4> <hill_b>.
       | <scene4> <shore_a>, / <within> / <scene4> <shore_b>.
       | <scene4> <lane_a>, / <within> / <scene4> <lane_b>.
       | <scene4> <street_a>, / <within> / <scene4> <street_b>.
       | <scene4> <town_a>, / <within> / <scene4> <town_b>.
       | <scene4> <stair_a>, / <within> / <scene4> <stair_b>.
       | 2 <deed4> <sing_a>, / <within> / <deed4> <sing_b>.
       | <deed4> <grow_a>, / <within> / <deed4> <grow_b>.
       | 2 <deed4> <play_a>, / <within> / <deed4> <play_b>.
       | <deed4> <sleep_a>, / <within> / <deed4> <sleep_b>.
       | <deed4> <turn_a>, / <within> / <deed4> <turn_b>.
       | <deed4> <shake_a>, / <within> / <deed4> <shake_b>.
within = 2 <couplet> | <nested>

ballad = <wish4> / <scene3> <hill_a>. / <gift4> / <scene3> <hill_b>.
       | <wish4> / <scene3> <shore_a>. / <gift4> / <scene3> <shore_b>.
       | <wish4> / <scene3> <lane_a>. / <gift4> / <scene3> <lane_b>.
       | <wish4> / <scene3> <street_a>. / <gift4> / <scene3> <street_b>.
       | <wish4> / <scene3> <town_a>. / <gift4> / <scene3> <town_b>.
       | <wish4> / <scene3> <stair_a>. / <gift4> / <scene3> <stair_b>.
       | <wish4> / <deed3> <sing_a>. / <gift4> / <deed3> <sing_b>.
       | <wish4> / <deed3> <grow_a>. / <gift4> / <deed3> <grow_b>.
       | <wish4> / <deed3> <play_a>. / <gift4> / <deed3> <play_b>.
       | <wish4> / <deed3> <sleep_a>. / <gift4> / <deed3> <sleep_b>.
       | <wish4> / <deed3> <turn_a>. / <gift4> / <deed3> <turn_b>.
       | <wish4> / <deed3> <shake_a>. / <gift4> / <deed3> <shake_b>.

# Lines without their last foot, or its stressed syllable. A scene ends with a place, a deed with
# what is done.
scene4 = 3 The <quiet_> <moon> <above_> the
       | 2 A <lantern_> <waits> <above_> the
       | 2 The <moon> is <resting_> <near> the
       | And <wind> and <dust> <above_> the
deed4 = 3 The <quiet_> <moon> <begins_> to
      | 2 The <lantern_> <slowly_> <learns> to
      | 2 I <hear> the <quiet_> <lantern_>
      | And in the <dusk> the <moon> <will>
scene3 = 2 It <waits> <above_> the | Its <friend> <waits> near the
deed3 = 2 It <slowly_> <learns> to | It <begins_> to
wish4 = I <asked> the <quiet_> <moon> for <bread>.
gift4 = It <gave> me <honey_> and some <bread>.

quiet_ = 4 quiet | 3 silver | 3 golden | 2 little | 2 ancient | 2 gentle | lonely | patient
       | weary | yellow | hollow | wooden
moon = 4 moon | 3 bird | 3 ship | 2 stream | 2 clock | 2 bell | 2 cat | wheel | star | flame | owl
     | cloud
lantern_ = 3 lantern | 3 river | 2 candle | 2 garden | 2 sailor | miller | spider | kettle | robin
         | shadow
wind = 2 wind | 2 mist | snow | rain
dust = 2 dust | smoke | song | light
friend = 2 friend | child | ghost | twin
above_ = 3 above | 3 beside | 2 beyond | 2 behind | 2 beneath | around | across | below
near = 2 near | by | past
waits = 3 waits | 2 stands | 2 shines | hums | drifts | hides | moves
resting_ = 3 resting | 2 waiting | 2 dreaming | leaning | gleaming | singing
begins_ = 3 begins | 2 forgets | 2 prepares | decides | consents
slowly_ = 3 slowly | 2 softly | 2 gladly | never | seldom | always
learns = 3 learns | 2 starts | 2 hopes | longs | tries | comes
hear = 2 hear | 2 see | watch | feel
dusk = 2 dusk | 2 dawn | dark | frost
will = 3 will | 2 may | must
asked = 3 asked | 2 begged | paid | thanked
gave = 3 gave | 2 brought | sold | lent
bread = 3 bread | 2 milk | 2 thread | wool | salt | nails | luck | warmth
honey_ = 2 honey | 2 water | paper | apples | copper | ginger

hill_a = 2 hill | rill
hill_b = 2 mill | sill
shore_a = 2 shore | store
shore_b = 2 door | floor
lane_a = 2 lane | vane
lane_b = 2 plain | grain | train
street_a = 2 street | fleet
street_b = 2 wheat | heat | sheet
town_a = 2 town | gown
town_b = 2 crown | down
stair_a = 2 stair | chair
stair_b = 2 square | pear | mare
sing_a = 3 sing | cling
sing_b = 2 ring | swing
grow_a = 2 grow | flow
grow_b = 2 glow | blow | row
play_a = 2 play | stray
play_b = 2 stay | sway | pray
sleep_a = 2 sleep | leap
sleep_b = 2 creep | weep
turn_a = 2 turn | yearn
turn_b = 2 burn | churn
shake_a = 2 shake | break
shake_b = 2 wake | ache
)";

// What stands behind the words of a stanza, but the empty line that ends it.
double count_separators(std::string_view piece) {
  return static_cast<double>(std::count(piece.begin(), piece.end(), ' ') +
                             std::count(piece.begin(), piece.end(), '\n'));
}

}  // namespace

const Grammar& verse_grammar() {
  static const Grammar grammar(kVerse);
  return grammar;
}

std::string write_verse(int64_t characters, uint64_t seed) {
  if (characters < 0)
    throw Error(ErrorCode::argument, "the length of a verse is " + std::to_string(characters) +
                                         " characters; expected 0 or more");
  std::string text;
  for (uint64_t stanza = 0; text.size() < static_cast<uint64_t>(characters); ++stanza)
    text += verse_grammar().draw(seed, stanza).text;
  return text;
}

VerseEntropy verse_entropy() {
  const Grammar& grammar = verse_grammar();
  const auto length = [](std::string_view piece) { return static_cast<double>(piece.size()); };
  return {.nats = grammar.entropy(),
          .characters = grammar.expected(length),
          .words = grammar.expected(count_separators) - 1};
}

}  // namespace rapt::text
