# Makes OUTPUT, the source of builtin_profiles(), from the JSON files FILES.
set(text "#include \"runtime/device/sim/builtin_profiles.h\"\n\nnamespace ebb::device {\nnamespace {\n\n")
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  string(MAKE_C_IDENTIFIER ${name} id)
  file(READ ${file} json)
  string(APPEND text "constexpr absl::string_view k_${id} = R\"json(${json})json\";\n")
  string(APPEND entries "    {\"${name}\", k_${id}},\n")
endforeach()
string(APPEND text "\nconstexpr BuiltinProfile kProfiles[] = {\n${entries}};\n\n}  // namespace\n\n"
       "std::span<const BuiltinProfile> builtin_profiles() { return kProfiles; }\n\n"
       "}  // namespace ebb::device\n")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
