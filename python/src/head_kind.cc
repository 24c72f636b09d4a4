#include "multihead/head_kind.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "module.h"

namespace multihead::python {
namespace {

void add_kinds(nb::module_& module) {
  nb::enum_<HeadKind>(
      module, "HeadKind",
      "What a head looks like on one text: where it reads, not what it is for. Excess: of the mass over even attention's.")
      .value("PREVIOUS", HeadKind::kPrevious, "on the key one position before: excess at least 0.5")
      .value("SELF", HeadKind::kSelf, "on the row's own key: excess at least 0.5")
      .value("NEXT", HeadKind::kNext, "on the key one position behind: excess at least 0.5")
      .value("OFFSET", HeadKind::kOffset, "on the keys at another distance, always the same one: excess at least 0.5")
      .value("SINK", HeadKind::kSink, "on the first key of the sequence: excess at least 0.3")
      .value("INDUCTION", HeadKind::kInduction, "on keys behind an earlier copy of the row's token: excess at least 0.3")
      .value("DUPLICATE", HeadKind::kDuplicate, "on earlier copies of the row's token: excess at least 0.3")
      .value("SEPARATOR", HeadKind::kSeparator, "on tokens of spaces and punctuation alone: excess at least 0.5")
      .value("LOCAL", HeadKind::kLocal, "none of the above, and on keys at most 8 away: excess at least 0.5")
      .value("BROAD", HeadKind::kBroad, "none of the above, and normalised entropy at least 0.85")
      .value("MIXED", HeadKind::kMixed, "none of the above: the keys depend on the text, or on several of these")
      .value("NONE", HeadKind::kNone, "no row has a choice, or a number is not finite");
}

}  // namespace

void add_head_kind(nb::module_& module) {
  add_kinds(module);
  nb::class_<HeadLook>(module, "HeadLook", "A HeadKind and what it rests on. str() says it in a word or three.")
      .def_ro("kind", &HeadLook::kind)
      .def_ro("measured", &HeadLook::measured, "the mass of the kind; of BROAD and MIXED the normalised entropy")
      .def_ro("local_mass", &HeadLook::local_mass, "on keys at most 8 away")
      .def_ro("separator_mass", &HeadLook::separator_mass, "on tokens of spaces and punctuation alone; 0 without tokens")
      .def_ro("distance", &HeadLook::distance, "of OFFSET: how far back; negative: ahead")
      .def_ro("excess", &HeadLook::excess, "(mass - uniform) / (1 - uniform) of `measured`; of BROAD, MIXED and NONE 0")
      .def_ro("interest", &HeadLook::interest, "how much there is to see; larger is more; -1 of NONE")
      .def("__str__", [](const HeadLook& look) { return name_of(look); })
      .def("__repr__", [](const HeadLook& look) { return "<HeadLook " + name_of(look) + ">"; });
  module.def("look_of", &look_of, nb::arg("head"), nb::arg("key_tokens") = std::vector<std::string>{},
             nb::sig("def look_of(head: HeadStatistics, key_tokens: collections.abc.Sequence[str] = ()) -> HeadLook"),
             R"(The kind of a head, from its `statistics`: the largest excess over even attention that reaches its threshold.

key_tokens  the map's, without which no head is SEPARATOR: one for each key

What `statistics` was told to leave out is not considered. Raises InvalidArgument for another number of tokens.)");
  module.def("most_interesting", &most_interesting, nb::arg("looks"),
             nb::sig("def most_interesting(looks: collections.abc.Sequence[HeadLook]) -> int"),
             "Index of the one with the most interest, the first among equals; -1 of an empty list.");
}

}  // namespace multihead::python
