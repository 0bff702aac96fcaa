# ruff: noqa: E501 - a row of a table is one line
"""The words of the demo grammar, in tables that read like a dictionary.

Nouns: English (and an irregular plural), then the German nominative with its article, genitive and plural;
drinks are mass nouns and have no plural. Verbs: the four English forms, with a particle (`turn .. on`) or
`+preposition` (`wait .. +for`); the German infinitive with `|` after a separable prefix, third person
present, preterite and perfect; who does it; to what, each object with its case. Objects are noun classes or
single nouns. Adjectives: English with its comparative, German with its attributive stem and comparative.
"""

NOUNS = {
    "person": """
        man/men = der Mann, Mannes, Männer
        woman/women = die Frau, Frau, Frauen
        child/children = das Kind, Kindes, Kinder
        boy = der Junge, Jungen, Jungen
        girl = das Mädchen, Mädchens, Mädchen
        teacher = der Lehrer, Lehrers, Lehrer
        student = der Student, Studenten, Studenten
        doctor = der Arzt, Arztes, Ärzte
        nurse = die Krankenschwester, Krankenschwester, Krankenschwestern
        farmer = der Bauer, Bauern, Bauern
        guest = der Gast, Gastes, Gäste
        writer = der Schriftsteller, Schriftstellers, Schriftsteller
        actress/actresses = die Schauspielerin, Schauspielerin, Schauspielerinnen
        waitress/waitresses = die Kellnerin, Kellnerin, Kellnerinnen
        tourist = der Tourist, Touristen, Touristen
        baker = der Bäcker, Bäckers, Bäcker
        painter = der Maler, Malers, Maler
        engineer = der Ingenieur, Ingenieurs, Ingenieure
    """,
    "relation": """
        friend = der Freund, Freundes, Freunde
        neighbour = der Nachbar, Nachbarn, Nachbarn
        colleague = der Kollege, Kollegen, Kollegen
        sister = die Schwester, Schwester, Schwestern
        brother = der Bruder, Bruders, Brüder
        daughter = die Tochter, Tochter, Töchter
        aunt = die Tante, Tante, Tanten
        uncle = der Onkel, Onkels, Onkel
    """,
    "animal": """
        dog = der Hund, Hundes, Hunde
        cat = die Katze, Katze, Katzen
        horse = das Pferd, Pferdes, Pferde
        bird = der Vogel, Vogels, Vögel
        rabbit = das Kaninchen, Kaninchens, Kaninchen
    """,
    "food": """
        apple = der Apfel, Apfels, Äpfel
        pear = die Birne, Birne, Birnen
        cake = der Kuchen, Kuchens, Kuchen
        egg = das Ei, Eies, Eier
        tomato/tomatoes = die Tomate, Tomate, Tomaten
    """,
    "drink": """
        coffee = der Kaffee, Kaffees
        tea = der Tee, Tees
        milk = die Milch, Milch
        water = das Wasser, Wassers
    """,
    "text": """
        book = das Buch, Buches, Bücher
        letter = der Brief, Briefes, Briefe
        newspaper = die Zeitung, Zeitung, Zeitungen
        poem = das Gedicht, Gedichts, Gedichte
        report = der Bericht, Berichts, Berichte
        novel = der Roman, Romans, Romane
        story/stories = die Geschichte, Geschichte, Geschichten
    """,
    "clothes": """
        coat = der Mantel, Mantels, Mäntel
        hat = der Hut, Hutes, Hüte
        dress/dresses = das Kleid, Kleides, Kleider
        shirt = das Hemd, Hemdes, Hemden
    """,
    "machine": """
        computer = der Computer, Computers, Computer
        radio = das Radio, Radios, Radios
        lamp = die Lampe, Lampe, Lampen
        camera = die Kamera, Kamera, Kameras
        machine = die Maschine, Maschine, Maschinen
    """,
    "vehicle": """
        car = das Auto, Autos, Autos
        bicycle = das Fahrrad, Fahrrads, Fahrräder
        bus/buses = der Bus, Busses, Busse
        boat = das Boot, Bootes, Boote
    """,
    "thing": """
        table = der Tisch, Tisches, Tische
        chair = der Stuhl, Stuhls, Stühle
        clock = die Uhr, Uhr, Uhren
        bag = die Tasche, Tasche, Taschen
        key = der Schlüssel, Schlüssels, Schlüssel
        picture = das Bild, Bildes, Bilder
        knife/knives = das Messer, Messers, Messer
        bottle = die Flasche, Flasche, Flaschen
        gift = das Geschenk, Geschenks, Geschenke
    """,
    "opening": """
        door = die Tür, Tür, Türen
        window = das Fenster, Fensters, Fenster
    """,
    "home": """
        kitchen = die Küche, Küche, Küchen
        room = das Zimmer, Zimmers, Zimmer
        office = das Büro, Büros, Büros
        garden = der Garten, Gartens, Gärten
        house = das Haus, Hauses, Häuser
    """,
    "building": """
        school = die Schule, Schule, Schulen
        hospital = das Krankenhaus, Krankenhauses, Krankenhäuser
        museum = das Museum, Museums, Museen
        church/churches = die Kirche, Kirche, Kirchen
        library/libraries = die Bibliothek, Bibliothek, Bibliotheken
        hotel = das Hotel, Hotels, Hotels
        restaurant = das Restaurant, Restaurants, Restaurants
        castle = das Schloss, Schlosses, Schlösser
        station = der Bahnhof, Bahnhofs, Bahnhöfe
        bridge = die Brücke, Brücke, Brücken
    """,
    "area": """
        city/cities = die Stadt, Stadt, Städte
        village = das Dorf, Dorfes, Dörfer
        park = der Park, Parks, Parks
        market = der Markt, Marktes, Märkte
        lake = der See, Sees, Seen
        forest = der Wald, Waldes, Wälder
    """,
}

VERBS = """
    buy bought bought buying; kaufen, kauft, kaufte, hat gekauft; human; accusative goods food drink vehicle; local benefit
    sell sold sold selling; verkaufen, verkauft, verkaufte, hat verkauft; human; accusative goods food vehicle house; local
    see saw seen seeing; sehen, sieht, sah, hat gesehen; human animal; accusative human animal vehicle; local punctual
    find found found finding; finden, findet, fand, hat gefunden; human; accusative goods animal; local punctual
    look looked looked looking +for; suchen, sucht, suchte, hat gesucht; human; accusative human animal goods
    lose lost lost losing; verlieren, verliert, verlor, hat verloren; human; accusative thing clothes camera book letter; local punctual mishap
    need needed needed needing; brauchen, braucht, brauchte, hat gebraucht; human; accusative goods vehicle human; stative mishap
    carry carried carried carrying; tragen, trägt, trug, hat getragen; human; accusative thing machine clothes child
    repair repaired repaired repairing; reparieren, repariert, reparierte, hat repariert; human; accusative machine vehicle opening clock chair; local
    steal stole stolen stealing; stehlen, stiehlt, stahl, hat gestohlen; human; accusative thing machine clothes car bicycle boat; local mishap
    draw drew drawn drawing; zeichnen, zeichnet, zeichnete, hat gezeichnet; human; accusative human animal building boat; local benefit
    read read read reading; lesen, liest, las, hat gelesen; human; accusative text; local
    write wrote written writing; schreiben, schreibt, schrieb, hat geschrieben; human; accusative text; local benefit
    eat ate eaten eating; essen, isst, aß, hat gegessen; human; accusative food; local
    drink drank drunk drinking; trinken, trinkt, trank, hat getrunken; human; accusative drink; local
    taste tasted tasted tasting; probieren, probiert, probierte, hat probiert; human; accusative food drink; local
    pay paid paid paying +for; bezahlen, bezahlt, bezahlte, hat bezahlt; human; accusative food drink clothes gift; local
    order ordered ordered ordering; bestellen, bestellt, bestellte, hat bestellt; human; accusative food drink book; benefit local
    visit visited visited visiting; besuchen, besucht, besuchte, hat besucht; human; accusative human building area
    know knew known knowing; kennen, kennt, kannte, hat gekannt; human; accusative human building area; stative mishap
    love loved loved loving; lieben, liebt, liebte, hat geliebt; human; accusative human animal; stative mishap
    meet met met meeting; treffen, trifft, traf, hat getroffen; human; accusative human; local
    watch watched watched watching; beobachten, beobachtet, beobachtete, hat beobachtet; human animal; accusative human animal; local
    feed fed fed feeding; füttern, füttert, fütterte, hat gefüttert; human; accusative animal; local
    open opened opened opening; öffnen, öffnet, öffnete, hat geöffnet; human; accusative opening bottle bag letter
    close closed closed closing; schließen, schließt, schloss, hat geschlossen; human; accusative opening bag
    invite invited invited inviting; ein|laden, lädt, lud, hat eingeladen; human; accusative human
    call called called calling; an|rufen, ruft, rief, hat angerufen; human; accusative human; local
    pick picked picked picking up; ab|holen, holt, holte, hat abgeholt; human; accusative human letter gift bicycle; local
    turn turned turned turning on; ein|schalten, schaltet, schaltete, hat eingeschaltet; human; accusative machine
    switch switched switched switching off; aus|schalten, schaltet, schaltete, hat ausgeschaltet; human; accusative machine
    look looked looked looking +at; an|sehen, sieht, sah, hat angesehen; human; accusative thing clothes building machine; local
    try tried tried trying on; an|probieren, probiert, probierte, hat anprobiert; human; accusative clothes; local
    throw threw thrown throwing away; weg|werfen, wirft, warf, hat weggeworfen; human; accusative thing text food machine clothes; local
    bring brought brought bringing back; zurück|bringen, bringt, brachte, hat zurückgebracht; human; accusative thing book novel report machine clothes bicycle
    hang hung hung hanging up; auf|hängen, hängt, hängte, hat aufgehängt; human; accusative clothes picture clock lamp; local
    tidy tidied tidied tidying up; auf|räumen, räumt, räumte, hat aufgeräumt; human; accusative home
    listen listened listened listening +to; zu|hören, hört, hörte, hat zugehört; human; dative human; local
    help helped helped helping; helfen, hilft, half, hat geholfen; human; dative human animal; local
    thank thanked thanked thanking; danken, dankt, dankte, hat gedankt; human; dative human; local
    follow followed followed following; folgen, folgt, folgte, ist gefolgt; human animal; dative human animal; local
    answer answered answered answering; antworten, antwortet, antwortete, hat geantwortet; human; dative human; local
    wait waited waited waiting +for; warten, wartet, wartete, hat gewartet; human; auf accusative human bus boat; local
    think thought thought thinking +of; denken, denkt, dachte, hat gedacht; human; an accusative human; mishap
    laugh laughed laughed laughing +at; lachen, lacht, lachte, hat gelacht; human; über accusative human story; mishap local
    give gave given giving; geben, gibt, gab, hat gegeben; human; dative human, accusative thing text clothes food; local
    show showed shown showing; zeigen, zeigt, zeigte, hat gezeigt; human; dative human, accusative thing text clothes machine animal; local
    send sent sent sending; schicken, schickt, schickte, hat geschickt; human; dative human, accusative text gift picture camera
    bring brought brought bringing; bringen, bringt, brachte, hat gebracht; human; dative human, accusative thing food drink text; local
    sleep slept slept sleeping; schlafen, schläft, schlief, hat geschlafen; human animal; ; local
    work worked worked working; arbeiten, arbeitet, arbeitete, hat gearbeitet; human; ; local company
    sing sang sung singing; singen, singt, sang, hat gesungen; human; ; local company
    cry cried cried crying; weinen, weint, weinte, hat geweint; human; ; local mishap
    play played played playing; spielen, spielt, spielte, hat gespielt; human animal; ; local company
    fall fell fallen falling asleep; ein|schlafen, schläft, schlief, ist eingeschlafen; human animal; ; mishap local
    get got got getting up; auf|stehen, steht, stand, ist aufgestanden; human animal
    come came come coming back; zurück|kommen, kommt, kam, ist zurückgekommen; human
    arrive arrived arrived arriving; an|kommen, kommt, kam, ist angekommen; human vehicle; ; local
    go went gone going; gehen, geht, ging, ist gegangen; human; ; walk company
    run ran run running; rennen, rennt, rannte, ist gerannt; human animal; ; walk company
    drive drove driven driving; fahren, fährt, fuhr, ist gefahren; human; ; journey walk company
    travel travelled travelled travelling; reisen, reist, reiste, ist gereist; human; ; journey company
    fly flew flown flying; fliegen, fliegt, flog, ist geflogen; human; ; journey company
    say said said saying; sagen, sagt, sagte, hat gesagt; human; ; that stative
    hear heard heard hearing; hören, hört, hörte, hat gehört; human; ; that stative
    believe believed believed believing; glauben, glaubt, glaubte, hat geglaubt; human; ; that stative
    know knew known knowing; wissen, weiß, wusste, hat gewusst; human; ; that whether stative mishap
    ask asked asked asking; fragen, fragt, fragte, hat gefragt; human; ; whether stative
    try tried tried trying; versuchen, versucht, versuchte, hat versucht; human; ; control
    forget forgot forgotten forgetting; vergessen, vergisst, vergaß, hat vergessen; human; ; control stative
    promise promised promised promising; versprechen, verspricht, versprach, hat versprochen; human; ; control
    begin began begun beginning; beginnen, beginnt, begann, hat begonnen; human; ; control
"""

ADJECTIVES = """
    old older = alt alt älter; human animal thing machine vehicle clothes text building home area opening
    young younger = jung jung jünger; human animal
    small smaller = klein klein kleiner; animal thing machine vehicle building home area opening food child boy girl
    big bigger = groß groß größer; animal thing machine vehicle building home area opening food
    tall taller = groß groß größer; human
    new newer = neu neu neuer; thing machine vehicle clothes text building opening
    beautiful = schön schön schöner; thing vehicle clothes building home area animal story poem woman
    expensive = teuer teur teurer; thing machine vehicle clothes food drink hotel restaurant
    cheap cheaper = billig billig billiger; thing machine vehicle clothes food drink hotel restaurant
    heavy heavier = schwer schwer schwerer; thing machine coat
    red - = rot rot -; clothes car bicycle boat bag door apple
    black - = schwarz schwarz -; clothes car bag animal
    white - = weiß weiß -; clothes animal house door boat
    friendly friendlier = freundlich freundlich freundlicher; human
    happy happier = glücklich glücklich glücklicher; human
    tired - = müde müd -; human animal
    hungry - = hungrig hungrig -; human animal
    famous = berühmt berühmt berühmter; person building text
    clever = klug klug klüger; human animal
    poor poorer = arm arm ärmer; human
    sick - = krank krank -; human animal
    fresh - = frisch frisch -; food drink
    cold colder = kalt kalt kälter; drink
    hot hotter = heiß heiß heißer; coffee tea water milk
    sweet sweeter = süß süß süßer; food coffee tea
    long longer = lang lang länger; text dress coat bridge
    short shorter = kurz kurz kürzer; text dress
    interesting = interessant interessant interessanter; text museum city
    important = wichtig wichtig wichtiger; text
    modern = modern modern moderner; building machine vehicle home city
    quiet quieter = ruhig ruhig ruhiger; building home area child
    dark darker = dunkel dunkl dunkler; home church forest
    fast faster = schnell schnell schneller; vehicle horse dog computer
"""
