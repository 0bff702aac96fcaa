# ruff: noqa: E501 - a row of a table is one line
"""The words of the demo grammar, in tables that read like a dictionary.

Nouns: English (and an irregular plural), then the German nominative with its article, and the plural; drinks
are mass nouns without a plural. Verbs: the four English forms, with a particle (`turn .. on`) or `+preposition`
(`wait .. +for`); the German infinitive with `|` after a separable prefix, third person present, preterite and
perfect; subjects; objects, each with its case; traits. Subjects and objects are noun classes or single nouns.
Adjectives: English, German with its attributive stem, and `-` if `very` cannot modify it; nouns it can modify.
"""

NOUNS = {
    "person": """
        man/men = der Mann, Männer
        woman/women = die Frau, Frauen
        child/children = das Kind, Kinder
        boy = der Junge, Jungen
        girl = das Mädchen, Mädchen
        teacher = der Lehrer, Lehrer
        student = der Student, Studenten
        doctor = der Arzt, Ärzte
        nurse = die Krankenschwester, Krankenschwestern
        farmer = der Bauer, Bauern
        guest = der Gast, Gäste
        writer = der Schriftsteller, Schriftsteller
        actress/actresses = die Schauspielerin, Schauspielerinnen
        waitress/waitresses = die Kellnerin, Kellnerinnen
        tourist = der Tourist, Touristen
    """,
    "relation": """
        friend = der Freund, Freunde
        neighbour = der Nachbar, Nachbarn
        colleague = der Kollege, Kollegen
        sister = die Schwester, Schwestern
        brother = der Bruder, Brüder
        daughter = die Tochter, Töchter
        aunt = die Tante, Tanten
        uncle = der Onkel, Onkel
    """,
    "animal": """
        dog = der Hund, Hunde
        cat = die Katze, Katzen
        horse = das Pferd, Pferde
        bird = der Vogel, Vögel
        rabbit = das Kaninchen, Kaninchen
    """,
    "food": """
        apple = der Apfel, Äpfel
        pear = die Birne, Birnen
        cake = der Kuchen, Kuchen
        egg = das Ei, Eier
        tomato/tomatoes = die Tomate, Tomaten
    """,
    "drink": """
        coffee = der Kaffee
        tea = der Tee
        milk = die Milch
        water = das Wasser
    """,
    "text": """
        book = das Buch, Bücher
        letter = der Brief, Briefe
        newspaper = die Zeitung, Zeitungen
        novel = der Roman, Romane
    """,
    "clothes": """
        coat = der Mantel, Mäntel
        dress/dresses = das Kleid, Kleider
    """,
    "machine": """
        computer = der Computer, Computer
        radio = das Radio, Radios
        lamp = die Lampe, Lampen
        camera = die Kamera, Kameras
    """,
    "vehicle": """
        car = das Auto, Autos
        bicycle = das Fahrrad, Fahrräder
        bus/buses = der Bus, Busse
        boat = das Boot, Boote
    """,
    "thing": """
        chair = der Stuhl, Stühle
        bag = die Tasche, Taschen
        key = der Schlüssel, Schlüssel
        picture = das Bild, Bilder
        bottle = die Flasche, Flaschen
        gift = das Geschenk, Geschenke
    """,
    "opening": """
        door = die Tür, Türen
        window = das Fenster, Fenster
    """,
    "home": """
        kitchen = die Küche, Küchen
        room = das Zimmer, Zimmer
        office = das Büro, Büros
        garden = der Garten, Gärten
        house = das Haus, Häuser
    """,
    "building": """
        school = die Schule, Schulen
        hospital = das Krankenhaus, Krankenhäuser
        museum = das Museum, Museen
        church/churches = die Kirche, Kirchen
        library/libraries = die Bibliothek, Bibliotheken
        hotel = das Hotel, Hotels
        restaurant = das Restaurant, Restaurants
        castle = das Schloss, Schlösser
        station = der Bahnhof, Bahnhöfe
        bridge = die Brücke, Brücken
    """,
    "area": """
        city/cities = die Stadt, Städte
        village = das Dorf, Dörfer
        park = der Park, Parks
        market = der Markt, Märkte
        lake = der See, Seen
        forest = der Wald, Wälder
    """,
}

VERBS = """
    buy bought bought buying; kaufen, kauft, kaufte, hat gekauft; human; accusative goods food drink vehicle; local
    sell sold sold selling; verkaufen, verkauft, verkaufte, hat verkauft; human; accusative goods food vehicle house; local
    see saw seen seeing; sehen, sieht, sah, hat gesehen; human animal; accusative human animal vehicle; local involuntary
    find found found finding; finden, findet, fand, hat gefunden; human; accusative goods animal; local involuntary
    look looked looked looking +for; suchen, sucht, suchte, hat gesucht; human; accusative human animal goods
    lose lost lost losing; verlieren, verliert, verlor, hat verloren; human; accusative thing clothes camera book letter; local involuntary
    need needed needed needing; brauchen, braucht, brauchte, hat gebraucht; human; accusative goods vehicle human; stative involuntary
    repair repaired repaired repairing; reparieren, repariert, reparierte, hat repariert; human; accusative machine vehicle opening chair; local
    draw drew drawn drawing; zeichnen, zeichnet, zeichnete, hat gezeichnet; human; accusative human animal building boat; local
    read read read reading; lesen, liest, las, hat gelesen; human; accusative text; local
    write wrote written writing; schreiben, schreibt, schrieb, hat geschrieben; human; accusative book letter novel; local
    eat ate eaten eating; essen, isst, aß, hat gegessen; human; accusative food; local
    drink drank drunk drinking; trinken, trinkt, trank, hat getrunken; human; accusative drink; local
    pay paid paid paying +for; bezahlen, bezahlt, bezahlte, hat bezahlt; human; accusative food drink clothes gift; local
    order ordered ordered ordering; bestellen, bestellt, bestellte, hat bestellt; human; accusative food drink book; local
    visit visited visited visiting; besuchen, besucht, besuchte, hat besucht; human; accusative human building area
    know knew known knowing; kennen, kennt, kannte, hat gekannt; human; accusative human building area; stative involuntary
    meet met met meeting; treffen, trifft, traf, hat getroffen; human; accusative human; local
    open opened opened opening; öffnen, öffnet, öffnete, hat geöffnet; human; accusative opening bottle bag letter
    close closed closed closing; schließen, schließt, schloss, hat geschlossen; human; accusative opening bag
    invite invited invited inviting; ein|laden, lädt, lud, hat eingeladen; human; accusative human
    call called called calling; an|rufen, ruft, rief, hat angerufen; human; accusative human; local
    pick picked picked picking up; ab|holen, holt, holte, hat abgeholt; human; accusative human letter gift bicycle; local
    turn turned turned turning on; ein|schalten, schaltet, schaltete, hat eingeschaltet; human; accusative machine
    look looked looked looking +at; an|sehen, sieht, sah, hat angesehen; human; accusative thing clothes building machine; local
    try tried tried trying on; an|probieren, probiert, probierte, hat anprobiert; human; accusative clothes; local
    throw threw thrown throwing away; weg|werfen, wirft, warf, hat weggeworfen; human; accusative thing text food machine clothes; local
    bring brought brought bringing back; zurück|bringen, bringt, brachte, hat zurückgebracht; human; accusative thing book novel machine clothes bicycle
    hang hung hung hanging up; auf|hängen, hängt, hängte, hat aufgehängt; human; accusative clothes picture lamp; local
    tidy tidied tidied tidying up; auf|räumen, räumt, räumte, hat aufgeräumt; human; accusative home
    listen listened listened listening +to; zu|hören, hört, hörte, hat zugehört; human; dative human; local
    help helped helped helping; helfen, hilft, half, hat geholfen; human; dative human animal; local
    follow followed followed following; folgen, folgt, folgte, ist gefolgt; human animal; dative human animal; local
    answer answered answered answering; antworten, antwortet, antwortete, hat geantwortet; human; dative human; local
    wait waited waited waiting +for; warten, wartet, wartete, hat gewartet; human; auf accusative human bus boat; local
    think thought thought thinking +of; denken, denkt, dachte, hat gedacht; human; an accusative human; involuntary
    laugh laughed laughed laughing +at; lachen, lacht, lachte, hat gelacht; human; über accusative human; involuntary local
    give gave given giving; geben, gibt, gab, hat gegeben; human; dative human, accusative thing text clothes food; local
    show showed shown showing; zeigen, zeigt, zeigte, hat gezeigt; human; dative human, accusative thing text clothes machine animal; local
    send sent sent sending; schicken, schickt, schickte, hat geschickt; human; dative human, accusative text gift picture camera
    bring brought brought bringing; bringen, bringt, brachte, hat gebracht; human; dative human, accusative thing food drink text; local
    sleep slept slept sleeping; schlafen, schläft, schlief, hat geschlafen; human animal; ; local
    work worked worked working; arbeiten, arbeitet, arbeitete, hat gearbeitet; human; ; local
    sing sang sung singing; singen, singt, sang, hat gesungen; human; ; local
    cry cried cried crying; weinen, weint, weinte, hat geweint; human; ; local involuntary
    play played played playing; spielen, spielt, spielte, hat gespielt; human animal; ; local
    fall fell fallen falling asleep; ein|schlafen, schläft, schlief, ist eingeschlafen; human animal; ; involuntary local
    get got got getting up; auf|stehen, steht, stand, ist aufgestanden; human animal
    come came come coming back; zurück|kommen, kommt, kam, ist zurückgekommen; human
    arrive arrived arrived arriving; an|kommen, kommt, kam, ist angekommen; human; ; local
    go went gone going; gehen, geht, ging, ist gegangen; human; ; walk
    travel travelled travelled travelling; reisen, reist, reiste, ist gereist; human; ; journey
    fly flew flown flying; fliegen, fliegt, flog, ist geflogen; human; ; journey
    say said said saying; sagen, sagt, sagte, hat gesagt; human; ; that stative
    hear heard heard hearing; hören, hört, hörte, hat gehört; human; ; that stative
    know knew known knowing; wissen, weiß, wusste, hat gewusst; human; ; that whether stative involuntary
    ask asked asked asking; fragen, fragt, fragte, hat gefragt; human; ; whether stative
"""

ADJECTIVES = """
    old = alt alt; human animal thing machine vehicle clothes text building home area opening
    young = jung jung; human animal
    small = klein klein; animal thing machine vehicle building home area opening food child boy girl
    big = groß groß; animal thing machine vehicle building home area opening food
    tall = groß groß; human
    new = neu neu; thing machine vehicle clothes text building opening
    beautiful = schön schön; thing vehicle clothes building home area animal woman
    expensive = teuer teur; thing machine vehicle clothes food drink hotel restaurant
    heavy = schwer schwer; thing machine coat
    red = rot rot -; clothes car bicycle boat bag door apple
    black = schwarz schwarz -; clothes car bag animal
    white = weiß weiß -; clothes animal house door boat
    friendly = freundlich freundlich; human
    happy = glücklich glücklich; human
    tired = müde müd -; human animal
    hungry = hungrig hungrig -; human animal
    famous = berühmt berühmt; person building text
    poor = arm arm; human
    sick = krank krank -; human animal
    fresh = frisch frisch -; food drink
    cold = kalt kalt; drink
    hot = heiß heiß; coffee tea water milk
    sweet = süß süß; food coffee tea
    long = lang lang; text dress coat bridge
    interesting = interessant interessant; text museum city
    important = wichtig wichtig; text
    quiet = ruhig ruhig; building home area child
    dark = dunkel dunkl; home church forest
    fast = schnell schnell; vehicle horse dog computer
"""
